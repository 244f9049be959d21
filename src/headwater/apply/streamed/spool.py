"""The changes of a streamed transaction, kept until it ends: in memory, what is more than that in a file.

Invariants: of a subtransaction that is rolled back all is gone from its first change on: what came after it is of its
own subtransactions. The file has no name, so no other user can open it, and the system removes it, whatever becomes of
the process.

PostgreSQL: worker.c (stream_write_change, subxact_info_add, apply_handle_stream_abort, apply_spooled_messages).
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from headwater.base.system_errors import errors_as
from headwater.errors import SpoolError

MEMORY_BYTES = 1 << 20
"""What is kept in memory of a transaction, at most, but for a longer last message."""

READ_BYTES = 1 << 20
"""What is read of the file at a time, at least."""

_HEAD = struct.Struct(">IQ")
_WRITING, _READING = "write changes of a streamed transaction", "read changes of a streamed transaction"


class Spool:
    """The changes.

    Args:
        xid: the transaction's; directory: where the file is made, if it is needed.
    """

    def __init__(self, xid: int, directory: Path) -> None:
        self._xid, self._directory = xid, directory
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self._written = 0
        self._firsts: dict[int, int] = {}

    @property
    def size(self) -> int:
        """Bytes that it has."""
        return self._written + len(self._memory)

    def add(self, xid: int, data: bytes, lsn: int) -> None:
        """Add a message.

        Args:
            xid: of the transaction, or of its subtransaction that the change is of.
            data: the message; lsn: that it was sent with.

        Raises:
            SpoolError: the file cannot be written.
        """
        if xid != self._xid:
            self._firsts.setdefault(xid, self.size)
        self._memory += _HEAD.pack(len(data), lsn)
        self._memory += data
        if len(self._memory) >= MEMORY_BYTES:
            self._spill()

    def roll_back(self, xid: int) -> int | None:
        """Forget the changes of a subtransaction, and return what is left, in bytes; None for one without changes.

        Raises:
            SpoolError: the file cannot be cut.
        """
        first = self._firsts.get(xid)
        if first is None:
            return None
        while xid in self._firsts:  # the last ones come first
            self._firsts.popitem()
        if first >= self._written:
            del self._memory[first - self._written :]
            return first
        self._memory.clear()
        assert self._file is not None
        with errors_as(SpoolError, _WRITING, self._directory):
            self._file.seek(first)
            self._file.truncate()
        self._written = first
        return first

    def messages(self) -> Iterator[tuple[bytes, int]]:
        """Give the messages, each with the LSN that it was sent with.

        Raises:
            SpoolError: the file cannot be read.
        """
        if self._file is not None:
            yield from self._of_file(self._file)
        yield from _messages_of(self._memory, 0)[0]

    def close(self) -> None:
        """Forget everything."""
        self._memory.clear()
        self._firsts.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        with errors_as(SpoolError, _WRITING, self._directory):
            if self._file is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115 - close() closes it
            rest = memoryview(self._memory)
            while rest:
                rest = rest[self._file.write(rest) :]
        self._written += len(self._memory)
        self._memory = bytearray()

    def _of_file(self, file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
        data, left = bytearray(), self._written
        with errors_as(SpoolError, _READING, self._directory):
            file.seek(0)
        while left:
            with errors_as(SpoolError, _READING, self._directory):
                piece = file.read(min(READ_BYTES, left))
            if not piece:
                raise SpoolError("could not read changes of a streamed transaction: the file was cut")
            left -= len(piece)
            data += piece
            messages, at = _messages_of(data, 0)
            yield from messages
            del data[:at]


def _messages_of(data: bytearray, at: int) -> tuple[list[tuple[bytes, int]], int]:
    """Take whole messages out of bytes; return where the rest begins, too."""
    messages = list[tuple[bytes, int]]()
    while at + _HEAD.size <= len(data):
        size, lsn = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + size
        if end > len(data):
            break
        messages.append((bytes(data[at + _HEAD.size : end]), lsn))
        at = end
    return messages, at
