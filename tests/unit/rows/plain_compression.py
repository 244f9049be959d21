"""pglz and lz4 in plain Python, written from the formats' descriptions, for tests to compare kernels with."""

from __future__ import annotations


def pglz_compress(raw: bytes) -> bytes:
    """Compress by a greedy pglz compressor: correct, not good."""
    out, at = bytearray(), 0
    while at < len(raw):
        control_at, control = len(out), 0
        out.append(0)
        for bit in range(8):
            if at >= len(raw):
                break
            length, distance = _longest_match(raw, at, max_distance=4095, max_length=273)
            if length < 3:
                out.append(raw[at])
                at += 1
                continue
            control |= 1 << bit
            nibble = min(length - 3, 15)
            out += bytes([(distance >> 4) & 0xF0 | nibble, distance & 0xFF])
            if nibble == 15:
                out.append(length - 18)
            at += length
        out[control_at] = control
    return bytes(out)


def _longest_match(raw: bytes, at: int, *, max_distance: int, max_length: int) -> tuple[int, int]:
    best = (0, 0)
    for start in range(max(0, at - max_distance), at):
        length = 0
        while length < max_length and at + length < len(raw) and raw[start + length] == raw[at + length]:
            length += 1
        if length > best[0]:
            best = (length, at - start)
    return best


def pglz_decompress(block: bytes, raw_size: int) -> bytes | None:
    """Return the raw bytes.

    None if the block is corrupt or does not give exactly that many from exactly all of it.
    """
    out, at = bytearray(), 0
    try:
        while at < len(block) and len(out) < raw_size:
            control = block[at]
            at += 1
            for bit in range(8):
                if at >= len(block) or len(out) >= raw_size:
                    break
                if not control >> bit & 1:
                    out.append(block[at])
                    at += 1
                    continue
                high, low = block[at], block[at + 1]
                at += 2
                length, distance = (high & 15) + 3, (high & 0xF0) << 4 | low
                if length == 18:
                    length += block[at]
                    at += 1
                if not 0 < distance <= len(out):
                    return None
                for _ in range(min(length, raw_size - len(out))):
                    out.append(out[-distance])
    except IndexError:
        return None
    return bytes(out) if len(out) == raw_size and at == len(block) else None


def lz4_decompress(block: bytes, raw_size: int) -> bytes | None:
    """Return the raw bytes, or None if the block is corrupt or does not give exactly that many."""
    out, at = bytearray(), 0

    def length_of(nibble: int) -> int:
        nonlocal at
        total = more = nibble
        while nibble == 15 and (total == 15 or more == 255):
            more = block[at]
            at += 1
            total += more
            if more == 0 and total == 15:
                break
        return total

    try:
        while True:
            token = block[at]
            at += 1
            literals = length_of(token >> 4)
            if at + literals > len(block):
                return None
            out += block[at : at + literals]
            at += literals
            if at == len(block):
                break
            distance = block[at] | block[at + 1] << 8
            at += 2
            length = length_of(token & 15) + 4
            if not 0 < distance <= len(out) or len(out) + length > raw_size:
                return None
            for _ in range(length):
                out.append(out[-distance])
    except IndexError:
        return None
    return bytes(out) if len(out) == raw_size else None
