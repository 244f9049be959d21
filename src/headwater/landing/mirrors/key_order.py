"""The order of a mirror's rows in its files: that of the key, as far as its values have one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.lakes.file_bounds import comparable, has_place
from headwater.landing.mirrors.mirror_form import MirrorForm


def in_key_order(form: MirrorForm, rows: pa.Table, which: NDArray[np.int64]) -> pa.Array[Any]:
    """Return numbers of rows, in the order of their keys.

    Args:
        form: of the mirror; rows: in its columns; which: int64[n] the rows.
    """
    keys = [name for name in form.key if has_place(form.schema.field(name).type)]
    chosen = pa.array(which, pa.int64())
    if not keys or not len(which):
        return chosen
    # By names of their own: pyarrow takes a sort key that begins with a dot or a bracket for a path into structs.
    ordered = {str(number): comparable(rows[name]).take(chosen) for number, name in enumerate(keys)}
    return chosen.take(pc.sort_indices(pa.table(ordered), sort_keys=[(number, "ascending") for number in ordered]))
