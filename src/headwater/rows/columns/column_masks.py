"""Masks of columns: what stands in the place of values, for a whole column at once (:mod:`headwater.rows.masks`).

Each different value is masked once a batch: hashes of about a million a second and core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from headwater.rows.masks import LITERAL, NULL, Mask, masking


@dataclass(frozen=True)
class ColumnMask:
    """A mask of a column; pickles.

    Attributes:
        mask: it; secret: that hashes are made with, empty for none.
    """

    mask: Mask
    secret: bytes = field(default=b"", repr=False)

    def masked(self, values: pa.StringArray, type_oid: int) -> pa.StringArray:
        """Mask a column.

        Args:
            values: STRING[n] as the server prints them; type_oid: of the source's type.
        """
        if self.mask.kind == NULL:
            return pa.nulls(len(values), pa.string())
        if self.mask.kind == LITERAL:
            text = pa.scalar(self.mask.argument, pa.string())
            return cast("pa.StringArray", pc.if_else(values.is_null(), pa.scalar(None, pa.string()), text))
        encoded = values.cast(pa.binary()).dictionary_encode()
        mask_value = masking(self.mask, self.secret, type_oid)
        different = cast("list[bytes]", encoded.dictionary.to_pylist())
        texts = pa.array(map(mask_value, different), pa.binary()).cast(pa.string())
        return cast("pa.StringArray", texts.take(encoded.indices))
