"""The changes of a streamed transaction, kept until it ends: in memory, what is more than that in a file.

Invariants: of a subtransaction that is rolled back all is gone from its first change on: what came after it is of its
own subtransactions. The file has no name, so no other user can open it, and the system removes it, whatever becomes of
the process.

PostgreSQL: worker.c (stream_write_change, subxact_info_add, apply_handle_stream_abort, apply_spooled_messages).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from headwater.base.system_errors import errors_as
from headwater.errors import SpoolError
from headwater.remote_slots.framed_messages import frame, whole_bytes

MEMORY_BYTES = 1 << 20
"""What is kept in memory of a transaction, at most, but for a longer last message."""

READ_BYTES = 4 << 20
"""What is read of the file at a time, at least."""

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
        self.add_framed(xid, frame(data, lsn))

    def add_framed(self, xid: int, data: bytes | memoryview) -> None:
        """Add messages as they came, one after the other, of one transaction or subtransaction.

        Raises:
            SpoolError: the file cannot be written.
        """
        if xid != self._xid:
            self._firsts.setdefault(xid, self.size)
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

    def pieces(self) -> Iterator[bytes]:
        """Give the messages, as they came, whole ones.

        Raises:
            SpoolError: the file cannot be read.
        """
        if self._file is not None:
            yield from self._of_file(self._file)
        if self._memory:
            yield bytes(self._memory)

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

    def _of_file(self, file: IO[bytes]) -> Iterator[bytes]:
        data, left = b"", self._written
        with errors_as(SpoolError, _READING, self._directory):
            file.seek(0)
        while left:
            with errors_as(SpoolError, _READING, self._directory):
                piece = file.read(min(READ_BYTES, left))
            if not piece:
                raise SpoolError("could not read changes of a streamed transaction: the file was cut")
            left -= len(piece)
            data += piece
            at = whole_bytes(np.frombuffer(data, np.uint8))
            yield data[:at]
            data = data[at:]
