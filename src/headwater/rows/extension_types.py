"""Forms of types that other packages bring, by the entry point ``headwater.types``.

An entry point is named after the type's output function as ``TypeInfo.output`` has it, a library's with the library's
name (``tablefunc:odd_out``); it is an :class:`AddedType`, or the function that is its text form. It is looked for
after the types of ``type_forms.py``. It is asked in the tasks that decode, once for each such column of a slice: the
package must be installed where they run, and where the plan is made.

Known gap: only for values that are a column's own, not for parts of arrays, composites or ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.base.arrow_buffers import buffer_numbers, large_binary_array
from headwater.errors import DecodingError, PluginError

GROUP = "headwater.types"

TextForm: TypeAlias = Callable[[pa.LargeBinaryArray], "pa.Array[Any] | pa.ChunkedArray[Any]"]
"""Makes texts (of any Arrow type for strings or bytes, in the database's encoding) of as many values, as they are
stored: detoasted, without varlena headers; none of them is null, neither is any text."""


@dataclass(frozen=True, slots=True)
class AddedType:
    """The forms of a type.

    Attributes:
        text: makes the texts that its output function makes of values.
        send: makes the bytes that its send function makes; None if they are not known (pgoutput's option ``binary``).
        arrow: the type of values in a typed column, one of ``type_forms.ARROW_FORMS``; None for text. It must be what
            the text reads as.
    """

    text: TextForm
    send: TextForm | None = None
    arrow: pa.DataType | None = None


@cache
def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def is_added(output: str) -> bool:
    """Tell whether a package brings the text form of types with this output function; empty for none."""
    return bool(output) and output in _points()


@cache
def added_type(output: str) -> AddedType:
    """Load the forms of types with an output function that :func:`is_added` knows.

    Raises:
        PluginError: they cannot be loaded.
    """
    point = _points()[output]
    try:
        loaded = point.load()
    except Exception as error:
        raise PluginError(f'could not load type "{output}" of {GROUP}: {type(error).__name__}: {error}') from None
    if isinstance(loaded, AddedType):
        return loaded
    if not callable(loaded):
        raise PluginError(f'type "{output}" of {GROUP} is {type(loaded).__name__}, expected a function or an AddedType')
    return AddedType(loaded)


def print_added(output: str, values: pa.LargeBinaryArray, place: str, *, binary: bool = False) -> pa.LargeBinaryArray:
    """Make texts of values, or their binary forms.

    Args:
        output: the output function that :func:`is_added` knows.
        values: large_binary[n] as stored.
        place: the column that they are of, for errors.
        binary: the type's send form, which it has, is wanted.

    Raises:
        PluginError: the form cannot be loaded.
        DecodingError: it fails, or does not give one text for each value.
    """
    added = added_type(output)
    form = added.send if binary and added.send is not None else added.text
    try:
        made = form(values)
        if isinstance(made, pa.ChunkedArray):
            made = made.combine_chunks()
        texts = cast("pa.LargeBinaryArray", made.cast(pa.large_binary()))
    except Exception as error:
        raise DecodingError(f'type "{output}" of {GROUP} failed for {place}: {type(error).__name__}') from error
    if len(texts) != len(values) or texts.null_count:
        raise DecodingError(
            f'type "{output}" of {GROUP} gave {len(texts) - texts.null_count} texts for {place}, expected {len(values)}'
        )
    return texts


def replace_values(
    text: NDArray[np.uint8], lengths: NDArray[np.int64], chosen: NDArray[np.bool_], texts: pa.LargeBinaryArray
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Put other bytes in the place of some pieces of a buffer.

    Args:
        text: uint8[] n pieces, one after the other.
        lengths: int64[n] their lengths.
        chosen: bool[n] which are replaced.
        texts: large_binary[k] the bytes that replace them.

    Returns:
        uint8[] the new buffer, int64[n+1] where its pieces begin.
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    pieces = large_binary_array(offsets, text)
    replaced = pc.replace_with_mask(pieces, pa.array(chosen), texts)
    _, ends, data = replaced.buffers()
    starts = buffer_numbers(ends, np.int64)[: len(lengths) + 1].copy()
    return buffer_numbers(data, np.uint8)[: starts[-1]].copy(), starts


def chosen_values(
    text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> pa.LargeBinaryArray:
    """Return the pieces of a buffer at some offsets, of some lengths: large_binary[k]."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return large_binary_array(offsets, text[places])
