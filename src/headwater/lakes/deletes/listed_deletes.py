"""Deleted rows of Parquet tables: bitmaps in the manifest of the commit that has deleted them, in Base64.

Only who goes by the manifests knows of them: who reads the files alone finds the rows still.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Self

from headwater.errors import LakeError
from headwater.lakes.deletes.deleted_rows import DeletedRows, Positions, bitmap_of, positions_of, united


@dataclass(frozen=True)
class ListedRows(DeletedRows):
    """Deleted rows, as a manifest lists them.

    Attributes:
        text: the bitmap, in Base64.
        count: how many rows.
    """

    text: str
    count: int

    @classmethod
    def of(cls, before: DeletedRows | None, positions: Positions) -> Self:
        """Return rows that go, and those that have gone before.

        Raises:
            LakeError: those of before cannot be read.
        """
        every = positions if before is None else united(before.positions(), positions)
        return cls(base64.b64encode(bitmap_of(every)).decode(), len(every))

    def positions(self) -> Positions:
        try:
            positions = positions_of(base64.b64decode(self.text, validate=True))
        except ValueError as error:
            raise LakeError(f"a list of deleted rows is damaged: {error}") from None
        if len(positions) != self.count:
            raise LakeError(f"a list of deleted rows is damaged: it has {len(positions)} rows, not {self.count}")
        return positions
