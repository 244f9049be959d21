"""PGLZ in plain Python."""

from __future__ import annotations


def compress(data: bytes) -> bytes:
    """Compress plainly: the longest match within reach, greedily."""
    out = bytearray()
    at = 0
    while at < len(data):
        control, items = 0, bytearray()
        for bit in range(8):
            if at >= len(data):
                break
            length, back = longest_match(data, at)
            if length >= 3:
                control |= 1 << bit
                items += tag(length, back)
                at += length
            else:
                items.append(data[at])
                at += 1
        out.append(control)
        out += items
    return bytes(out)


def longest_match(data: bytes, at: int) -> tuple[int, int]:
    """Find the length of the longest match, and how far back its first occurrence lies."""
    best, start = (0, 0), max(0, at - 4095)
    for length in range(3, min(273, len(data) - at) + 1):
        start = data.find(data[at : at + length], start, at + length - 1)
        if start < 0:
            break
        best = (length, at - start)
    return best


def tag(length: int, back: int) -> bytes:
    high = (back >> 8) << 4
    if length < 18:
        return bytes([high | length - 3, back & 0xFF])
    return bytes([high | 15, back & 0xFF, length - 18])


def plain_decompress(source: bytes, raw_size: int) -> bytes | None:
    out = bytearray()
    at = 0
    while at < len(source) and len(out) < raw_size:
        control = source[at]
        at += 1
        for bit in range(8):
            if at >= len(source) or len(out) >= raw_size:
                break
            if not control >> bit & 1:
                out.append(source[at])
                at += 1
                continue
            if at + 2 > len(source):
                return None
            length, back = (source[at] & 15) + 3, (source[at] & 0xF0) << 4 | source[at + 1]
            at += 2
            if length == 18:
                if at >= len(source):
                    return None
                length += source[at]
                at += 1
            if back == 0 or back > len(out):
                return None
            for _ in range(min(length, raw_size - len(out))):
                out.append(out[-back])
    return bytes(out) if at == len(source) and len(out) == raw_size else None
