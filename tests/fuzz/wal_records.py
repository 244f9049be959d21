"""Records taken out of WAL, made wrong, and written into pages again with checksums that are right.

Checksums are made again: otherwise hardly a record would pass, and the code after the check would not be tried. A few
are left as they are.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from fuzz.mutations import Field, change, change_field, change_length, put, u32
from headwater.wal.checksum import crc32c

PAGE = 8192
_HEAD = 24
_LEFT_WRONG = 0.02
SWITCH = b"\x18\0\0\0" + bytes(12) + b"\x40" + bytes(7)
"""XLOG_SWITCH, without its links: a segment ends with one, and no page after it is read."""


@dataclass(frozen=True)
class Parts:
    """The places of a record's numbers.

    Attributes:
        fields: numbers of its headers.
        main: offset of its main data, where the server's own structs begin; blocks: offsets of blocks' data.
        main_length: the number that says how long main data is, None if there is none.
    """

    fields: list[Field]
    main: int
    blocks: list[int]
    main_length: Field | None


def parts_of(data: bytes, major: int) -> Parts:
    """Take a record apart, as DecodeXLogRecord does; of one that is not sound, as far as it goes."""
    size, data = len(data), data + bytes(16)
    fields: list[Field] = [(0, 4), (4, 4), (16, 1), (17, 1), (16, 2)]
    at, lengths, main_length, main_field = _HEAD, list[int](), 0, None
    while at + sum(lengths) + main_length < size and main_field is None:
        block_id = data[at]
        fields.append((at, 1))
        if block_id in (254, 255):
            main_field = (at + 1, 4 if block_id == 254 else 1)
            main_length = int.from_bytes(data[at + 1 : at + 1 + main_field[1]], "little")
            fields.append(main_field)
            at += 1 + main_field[1]
        elif block_id == 253:
            fields.append((at + 1, 2))
            at += 3
        elif block_id == 252:
            fields.append((at + 1, 4))
            at += 5
        else:
            flags, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "little")
            fields += [(at + 1, 1), (at + 2, 2)]
            at += 4
            if flags & 0x10:
                image, info = int.from_bytes(data[at : at + 2], "little"), data[at + 4]
                fields += [(at, 2), (at + 2, 2), (at + 4, 1)]
                packed = info & 0x02 if major == 14 else info & 0x1C
                at += 5
                if packed and info & 0x01:
                    fields.append((at, 2))
                    at += 2
                lengths.append(image)
            if not flags & 0x80:
                fields += [(at, 4), (at + 4, 4), (at + 8, 4)]
                at += 12
            fields.append((at, 4))
            at += 4
            lengths.append(length)
    blocks = []
    for length in lengths:
        blocks.append(at)
        at += length
    return Parts(fields, min(at, size), [block for block in blocks if block < size], main_field)


def _data_fields(rng: random.Random, data: bytes, start: int) -> Field:
    """Choose a number near the beginning of some data, where counts, lengths, flags and offsets are."""
    width = rng.choice((1, 2, 4, 4, 8))
    reach = max(1, min(len(data) - start, rng.choice((8, 16, 64, 4096))))
    at = start + rng.randrange(reach)
    return (at - (at - start) % width, width)


def change_record(rng: random.Random, data: bytes, others: Sequence[bytes], major: int) -> bytes:
    """Make a record with something wrong in it, its length in order mostly."""
    copy, parts = bytearray(data), parts_of(data, major)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        how = rng.randrange(10)
        if how < 3:
            change_field(rng, copy, rng.choice(parts.fields))
        elif how < 6:
            start = rng.choice([parts.main, parts.main, *parts.blocks])
            change_field(rng, copy, _data_fields(rng, data, start))
        elif how == 6:
            _borrow_field(rng, copy, parts, rng.choice(others), major)
        elif how == 7:
            _change_main_length(rng, copy, parts)
        else:
            change(rng, copy)
    if rng.random() < 0.9:
        put(copy, (0, 4), max(len(copy), _HEAD))
    return bytes(copy) + bytes(max(0, _HEAD - len(copy)))


def _borrow_field(rng: random.Random, copy: bytearray, parts: Parts, other: bytes, major: int) -> None:
    """Put a number of another record in the place of one: an xid, a file, a block of somebody else."""
    theirs = parts_of(other, major).fields
    field = rng.choice(parts.fields)
    same = [other_field for other_field in theirs if other_field[1] == field[1]]
    if same:
        at, width = rng.choice(same)
        put(copy, field, int.from_bytes(other[at : at + width], "little"))


def _change_main_length(rng: random.Random, copy: bytearray, parts: Parts) -> None:
    """Cut or grow main data, with a header that says so."""
    if parts.main_length is None:
        return
    main = bytearray(copy[parts.main :])
    change_length(rng, main)
    at, width = parts.main_length
    if len(main) < 1 << 8 * width:
        del copy[parts.main :]
        copy += main
        put(copy, (at, width), len(main))


def change_order(rng: random.Random, records: list[bytes], others: Sequence[bytes]) -> None:
    """Swap, double or lose records, or take one from another place."""
    if not records:
        return
    at, how = rng.randrange(len(records)), rng.randrange(5)
    if how == 0:
        del records[at]
    elif how == 1:
        records.insert(at, records[rng.randrange(len(records))])
    elif how == 2:
        other = rng.randrange(len(records))
        records[at], records[other] = records[other], records[at]
    elif how == 3:
        records[at] = rng.choice(others)
    else:
        records.insert(at, rng.choice(others))


@dataclass
class PageWriter:
    """A writer of records into pages, as CopyXLogRecordToWAL does.

    Attributes:
        header: the long header that the segment begins with, which has magic, timeline, LSN, system and sizes.
        prev: LSN of the record before the first one.
    """

    header: bytes
    prev: int

    def __post_init__(self) -> None:
        self._magic, _, self._timeline, self.lsn = struct.unpack_from("<HHIQ", self.header)
        self._start: int = self.lsn
        self._out = bytearray(self._page_header(0))

    def write(self, data: bytes, fix: bool = True) -> None:
        """Put a record after the last one; its link back and its checksum are made right."""
        lsn = self._place()
        if fix:
            body = data[:8] + struct.pack("<Q", self.prev) + data[16:20]
            data = body + u32(crc32c(data[_HEAD:] + body)) + data[_HEAD:]
        self.prev = lsn
        left = memoryview(data)
        while left:
            room = PAGE - len(self._out) % PAGE
            self._out += left[:room]
            left = left[room:]
            if left:
                self._out += self._page_header(len(left))
        self._out += bytes(-len(self._out) % 8)

    def _place(self) -> int:
        """Return the LSN where the next record begins."""
        if len(self._out) % PAGE == 0:
            self._out += self._page_header(0)
        return self._start + len(self._out)

    def _page_header(self, rest: int) -> bytes:
        at = len(self._out) if hasattr(self, "_out") else 0
        if at == 0:
            info = struct.unpack_from("<H", self.header, 2)[0] & ~1
            return self.header[:2] + struct.pack("<H", info) + self.header[4:16] + bytes(8) + self.header[24:40]
        info = 1 if rest else 0
        return struct.pack("<HHIQI4x", self._magic, info, self._timeline, self._start + at, rest)

    def pages(self) -> bytes:
        """Return whole pages."""
        return bytes(self._out) + bytes(-len(self._out) % PAGE)


def written(rng: random.Random, header: bytes, prev: int, records: Sequence[bytes], limit: int) -> bytes:
    """Write pages of records and a switch; at most ``limit`` bytes."""
    writer = PageWriter(header, prev)
    room = limit - 4 * PAGE
    for record in records:
        room -= len(record) + 40 + len(record) // 300
        if room > 0:
            writer.write(record, rng.random() >= _LEFT_WRONG)
    writer.write(SWITCH)
    return writer.pages()
