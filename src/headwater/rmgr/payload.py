"""A cursor over a record's payload: little-endian fields, each read checked against the end."""

from __future__ import annotations

import struct

from headwater.errors import RecordError

_U8, _U16, _U32, _I32 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")
_U64, _I64, _I8, _F64 = struct.Struct("<Q"), struct.Struct("<q"), struct.Struct("<b"), struct.Struct("<d")
_BLOCK_ID = struct.Struct("<HH")


class Payload:
    """A reader of fields one after another.

    Args:
        data: the payload.
        what: the record's kind, for errors.
        lsn: the record's LSN, for errors.

    Every method raises RecordError when the field would run over the end.
    """

    __slots__ = ("_lsn", "_what", "at", "data")

    def __init__(self, data: bytes, what: str, lsn: int) -> None:
        self.data = data
        self.at = 0
        self._what = what
        self._lsn = lsn

    def u8(self) -> int:
        """Read an unsigned byte."""
        return self._number(_U8)

    def i8(self) -> int:
        """Read a signed byte."""
        return self._number(_I8)

    def u16(self) -> int:
        """Read an unsigned number of two bytes."""
        return self._number(_U16)

    def u32(self) -> int:
        """Read an unsigned number of four bytes."""
        return self._number(_U32)

    def i32(self) -> int:
        """Read a signed number of four bytes."""
        return self._number(_I32)

    def u64(self) -> int:
        """Read an unsigned number of eight bytes."""
        return self._number(_U64)

    def i64(self) -> int:
        """Read a signed number of eight bytes."""
        return self._number(_I64)

    def f64(self) -> float:
        """Read a double."""
        return _F64.unpack(self.take(8))[0]  # type: ignore[no-any-return]

    def block_id(self) -> int:
        """Read a block number in two halves (BlockIdData), which needs no alignment to four bytes."""
        high, low = _BLOCK_ID.unpack(self.take(4))
        return int(high << 16 | low)

    def flag(self) -> bool:
        """Read a C bool."""
        return self._number(_U8) != 0

    def take(self, length: int) -> bytes:
        """Read so many bytes."""
        self._need(length)
        content = self.data[self.at : self.at + length]
        self.at += length
        return content

    def u16s(self, count: int) -> tuple[int, ...]:
        """Read an array of unsigned two-byte numbers."""
        return struct.unpack(f"<{count}H", self.take(2 * count)) if self._count(count) else ()

    def u32s(self, count: int) -> tuple[int, ...]:
        """Read an array of unsigned four-byte numbers."""
        return struct.unpack(f"<{count}I", self.take(4 * count)) if self._count(count) else ()

    def locator(self) -> tuple[int, int, int]:
        """Read a RelFileLocator: (tablespace, database, file number)."""
        return self.u32(), self.u32(), self.u32()

    def locators(self, count: int) -> tuple[tuple[int, int, int], ...]:
        """Read an array of RelFileLocator: (tablespace, database, file number)."""
        flat = self.u32s(3 * count)
        return tuple((flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3))

    def items(self, count: int, size: int) -> bytes:
        """Read an array of `count` structures of `size` bytes."""
        return self.take(count * size) if self._count(count) else b""

    def cstring(self) -> bytes:
        """Read bytes up to a NUL, which is skipped."""
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise self.error("a string has no end")
        content = self.data[self.at : end]
        self.at = end + 1
        return content

    def align(self, boundary: int) -> None:
        """Skip to a multiple of `boundary`; may go past the end if nothing is read there."""
        self.at += -self.at % boundary

    def error(self, what: str) -> RecordError:
        """Make the error to raise when the payload makes no sense."""
        return RecordError(f"malformed {self._what} record: {what}", lsn=self._lsn)

    def _number(self, layout: struct.Struct) -> int:
        self._need(layout.size)
        value: int = layout.unpack_from(self.data, self.at)[0]
        self.at += layout.size
        return value

    def _count(self, count: int) -> int:
        if count < 0:
            raise self.error(f"negative count {count}")
        return count

    def _need(self, length: int) -> None:
        if length < 0 or self.at + length > len(self.data):
            raise self.error(f"found {len(self.data)} bytes, expected at least {self.at + length}")
