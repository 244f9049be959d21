"""Pieces of a slot's stream until a window of them is whole: in memory, what is more than that in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from headwater.base.system_errors import errors_as
from headwater.errors import LakeError

MEMORY_BYTES, PIECE_BYTES = 128 << 20, 32 << 20
"""What is kept in memory; and the size from which on a piece is not joined with the next."""


class SpooledPieces:
    """Pieces, in their order; a file that they need goes with them.

    Args:
        directory: where the file is made, if it is needed; is made, too.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sizes: list[int] = []
        self._pieces: list[bytearray] = []
        self._file: IO[bytes] | None = None
        self.bytes = 0

    def add(self, data: bytes) -> None:
        """Add a piece.

        Raises:
            LakeError: the file cannot be written.
        """
        if not data:
            return
        if not self._pieces or len(self._pieces[-1]) + len(data) > PIECE_BYTES:
            self._spill()
            self._pieces.append(bytearray())
        self._pieces[-1] += data
        self.bytes += len(data)

    def _spill(self) -> None:
        """Write what is in memory, if it is too much."""
        if sum(map(len, self._pieces)) + PIECE_BYTES <= MEMORY_BYTES:
            return
        with errors_as(LakeError, "write what a slot sends", self._directory):
            if self._file is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - closed by close()
            for piece in self._pieces:
                self._file.write(piece)
                self._sizes.append(len(piece))
        self._pieces.clear()

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Give the pieces, as often as that is asked for.

        Raises:
            LakeError: the file cannot be read.
        """
        if self._file is not None:
            at = 0
            for size in self._sizes:
                with errors_as(LakeError, "read what a slot has sent", self._directory):
                    self._file.seek(at)
                    data = self._file.read(size)
                yield np.frombuffer(data, np.uint8)
                at += size
            self._file.seek(at)
        for piece in self._pieces:
            yield np.frombuffer(piece, np.uint8)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
