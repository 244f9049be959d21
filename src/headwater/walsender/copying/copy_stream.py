"""The rows of a COPY to the client, in CopyData: from a copy of the cluster and WAL, or from the primary."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from headwater.protocol.copy_frames import Piece, framed_rows
from headwater.walsender.copying.copied_rows import CopyOut


@dataclass(frozen=True)
class CopyStream:
    """A COPY to the client that is about to begin.

    Attributes:
        column_count, is_binary: what CopyOutResponse says.
        pieces: rows in CopyData, so many each; whoever does not come to their end closes them.
    """

    column_count: int
    is_binary: bool
    pieces: Generator[Piece]


def stream_of(copied: CopyOut) -> CopyStream:
    """Return rows that were read here as a stream."""
    return CopyStream(copied.column_count, copied.is_binary, _pieces(copied))


def _pieces(copied: CopyOut) -> Generator[Piece]:
    try:
        for batch in copied.batches:
            yield Piece(framed_rows(batch.offsets, batch.data), batch.rows, 0)
    finally:
        copied.batches.close()
