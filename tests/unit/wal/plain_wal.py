"""A plain writer and a plain reader of WAL, byte by byte, to hold the kernels against.

The writer follows CopyXLogRecordToWAL, the reader XLogDecodeNextRecord; neither shares a line with the product.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

PAGE = 8192
MIB = 1 << 20
MAGIC = {15: 0xD110, 16: 0xD113, 17: 0xD116, 18: 0xD118, 19: 0xD122}
SYSTEM = 7_300_000_000_000_000_001


def crc32c(data: bytes) -> int:
    """Compute the checksum bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _byte_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _byte_table()
_PAIRS = [(low >> 8) ^ _TABLE[(low ^ high) & 0xFF] for high in range(256) for low in _TABLE]


def fast_crc32c(data: bytes) -> int:
    """Compute the checksum two bytes at a time."""
    crc = 0xFFFFFFFF
    pairs, rest = divmod(len(data), 2)
    for pair in struct.unpack_from(f"<{pairs}H", data):
        crc = (crc >> 16) ^ _PAIRS[(crc ^ pair) & 0xFFFF]
    if rest:
        crc = (crc >> 8) ^ _TABLE[(crc ^ data[-1]) & 0xFF]
    return crc ^ 0xFFFFFFFF


def make_record(rmid: int, info: int, xid: int, prev: int, body: bytes) -> bytes:
    """Make a record with its checksum."""
    head = struct.pack("<IIQBBH", 24 + len(body), xid, prev, info, rmid, 0)
    return head + struct.pack("<I", fast_crc32c(body + head)) + body


def main_data(data: bytes) -> bytes:
    """Make a body that is main data only."""
    if len(data) < 256:
        return bytes([255, len(data)]) + data
    return b"\xfe" + struct.pack("<I", len(data)) + data


@dataclass
class WalWriter:
    """A writer of records from `position` on into an image of consecutive segments."""

    first_segment: int = 1
    segment_size: int = MIB
    timeline: int = 1
    major: int = 16
    system: int = SYSTEM
    image: bytearray = field(default_factory=bytearray)
    prev: int = 0
    records: list[tuple[int, int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = self.first_segment * self.segment_size
        self.position = self.start

    def append(self, body: bytes, rmid: int = 10, info: int = 0, xid: int = 700) -> int:
        """Write a whole record; its start LSN."""
        lsn = self._skip_header()
        data = make_record(rmid, info, xid, self.prev, body)
        self._write(data)
        self.position += -self.position % 8
        self.prev = lsn
        self.records.append((lsn, self.position, data))
        return lsn

    def switch(self) -> int:
        """Write XLOG_SWITCH and go to the next segment."""
        lsn = self.append(b"", rmid=0, info=0x40)
        end = -(-self.position // self.segment_size) * self.segment_size
        self.position = end
        self.records[-1] = (lsn, end, self.records[-1][2])
        self._extend(end)
        return lsn

    def cut(self, body: bytes, pages: int) -> int:
        """Begin a record, stop at the end of its `pages`-th page, and go on as after a crash; the cut record's LSN."""
        lsn = self._skip_header()
        data = make_record(10, 0, 700, self.prev, body)
        end = lsn - lsn % PAGE + pages * PAGE
        self._write(data, until=end)
        assert self.position == end, "the record was not long enough to cut"
        self._header(end, info=4 if self.major >= 19 else 8)
        self.append(main_data(struct.pack("<QQ", lsn, 1)), rmid=0, info=0xD0)
        return lsn

    def _skip_header(self) -> int:
        if self.position % PAGE == 0:
            if len(self.image) <= self.position - self.start:
                self._header(self.position)
            self.position += 40 if self.position % self.segment_size == 0 else 24
        return self.position

    def _write(self, data: bytes, until: int | None = None) -> None:
        done = 0
        while done < len(data):
            if self.position % PAGE == 0:
                if self.position == until:
                    return
                self._header(self.position, info=1, rest=len(data) - done)
                self.position += 40 if self.position % self.segment_size == 0 else 24
            count = min(PAGE - self.position % PAGE, len(data) - done)
            at = self.position - self.start
            self._extend(self.position - self.position % PAGE + PAGE)
            self.image[at : at + count] = data[done : done + count]
            self.position += count
            done += count

    def _header(self, lsn: int, info: int = 0, rest: int = 0) -> None:
        self._extend(lsn + PAGE)
        head = struct.pack("<HHIQI4x", MAGIC[self.major], info, self.timeline, lsn, rest)
        if lsn % self.segment_size == 0:
            head = struct.pack("<HHIQI4x", MAGIC[self.major], info | 2, self.timeline, lsn, rest)
            head += struct.pack("<QII", self.system, self.segment_size, PAGE)
        at = lsn - self.start
        self.image[at : at + len(head)] = head

    def _extend(self, end: int) -> None:
        self.image += bytes(max(0, end - self.start - len(self.image)))

    def segment_images(self) -> dict[int, bytes]:
        """Return number to bytes, the last segment filled with zeros."""
        whole = bytes(self.image) + bytes(-len(self.image) % self.segment_size)
        return {
            self.first_segment + i // self.segment_size: whole[i : i + self.segment_size]
            for i in range(0, len(whole), self.segment_size)
        }

    def name(self, number: int) -> str:
        """Return the file name of a segment."""
        per_log = (1 << 32) // self.segment_size
        return f"{self.timeline:08X}{number // per_log:08X}{number % per_log:08X}"

    def save(self, directory: Path) -> Path:
        """Write the segment files."""
        directory.mkdir(parents=True, exist_ok=True)
        for number, data in self.segment_images().items():
            (directory / self.name(number)).write_bytes(data)
        return directory


@dataclass
class PlainReader:
    """A reader of an image of consecutive segments that starts at `start`."""

    image: bytes
    start: int
    segment_size: int = MIB
    major: int = 16
    system: int = SYSTEM
    records: list[tuple[int, int, bytes]] = field(default_factory=list)

    def read(self, lsn: int) -> int:
        """Read from a record's or page's start to the end, and return where the next record would be."""
        prev: int | None = None
        while True:
            record_and_end = self._read_one(lsn, prev)
            if record_and_end is None:
                return lsn
            (start, data), after = record_and_end
            end = after
            if data[17] == 0 and data[16] & 0xF0 == 0x40:
                end = -(-after // self.segment_size) * self.segment_size
            self.records.append((start, end, data))
            prev, lsn = start, end

    def _read_one(self, lsn: int, prev: int | None) -> tuple[tuple[int, bytes], int] | None:
        page = lsn - lsn % PAGE
        header = self._page(page)
        if header is None:
            return None
        if lsn == page:
            lsn += self._header_size(page)
        if header[0] & 1 and lsn % PAGE == self._header_size(page):
            return None
        (size,) = struct.unpack_from("<I", self.image, lsn - self.start)
        if size < 24:
            return None
        data = self.image[lsn - self.start : min(lsn + size, page + PAGE) - self.start]
        end = lsn + len(data)
        while len(data) < size:
            page += PAGE
            header = self._page(page)
            if header is None:
                return None
            if header[0] & 8:
                return self._read_one(page, prev)
            if not header[0] & 1 or header[1] != size - len(data):
                return None
            skip = self._header_size(page)
            part = self.image[page + skip - self.start : page - self.start + min(PAGE, skip + size - len(data))]
            data += part
            end = page + skip + len(part)
        return ((lsn, data), end + -end % 8) if self._valid(data, lsn, prev) else None

    def _valid(self, data: bytes, lsn: int, prev: int | None) -> bool:
        crc: int
        _, _, found_prev, _, rmid, _, crc = struct.unpack_from("<IIQBBHI", data)
        if 21 < rmid < 128 or (found_prev != prev if prev is not None else found_prev >= lsn):
            return False
        return crc == fast_crc32c(data[24:] + data[:20])

    def _page(self, lsn: int) -> tuple[int, int] | None:
        at = lsn - self.start
        if at + PAGE > len(self.image):
            return None
        magic, info, _, address, rest = struct.unpack_from("<HHIQI", self.image, at)
        first = lsn % self.segment_size == 0
        if magic != MAGIC[self.major] or info & ~15 or bool(info & 2) != first or address != lsn:
            return None
        if first and struct.unpack_from("<QII", self.image, at + 24) != (self.system, self.segment_size, PAGE):
            return None
        return info, rest

    def _header_size(self, lsn: int) -> int:
        return 40 if lsn % self.segment_size == 0 else 24
