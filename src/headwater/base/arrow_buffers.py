"""Arrays of NumPy as buffers and arrays of Arrow, and back, each in the memory of the other.

pyarrow has its types from the package ``pyarrow-stubs``, written for an earlier release (20). It does not say that
Arrow's buffers are bytes for NumPy, nor that NumPy's arrays are bytes for Arrow before Python 3.12. Both are said here
once, for all callers.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)


def arrow_buffer(values: NDArray[Any]) -> pa.Buffer:
    """Return the memory of an array, which lies in one piece."""
    return pa.py_buffer(values)  # type: ignore[arg-type]  # as said above


def bitmap(valid: NDArray[np.bool_]) -> pa.Buffer:
    """Make Arrow's bits of what is valid."""
    return arrow_buffer(np.packbits(valid, bitorder="little"))


def buffer_numbers(buffer: pa.Buffer | None, dtype: type[Number]) -> NDArray[Number]:
    """Return the numbers in a buffer; none where Arrow has left it out."""
    if buffer is None:
        return np.empty(0, dtype)
    numbers: NDArray[Number] = np.frombuffer(buffer, dtype)  # type: ignore[call-overload]  # as said above
    return numbers


def binary_array(validity: pa.Buffer | None, offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> pa.BinaryArray:
    """Make an array of values that lie one after the other.

    Args:
        validity: bits of what is not null; None if nothing is.
        offsets: int32[n+1] where values begin, and the last one ends.
        data: uint8[] their bytes.

    Returns:
        binary[n].
    """
    buffers = [validity, arrow_buffer(offsets), arrow_buffer(data)]
    return cast("pa.BinaryArray", pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers))


def large_binary_array(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.LargeBinaryArray:
    """Make an array of values that lie one after the other: large_binary[n]; none is null.

    Args:
        offsets: int64[n+1] where values begin, and the last one ends.
        data: uint8[] their bytes.
    """
    buffers = [None, arrow_buffer(offsets), arrow_buffer(data)]
    return cast("pa.LargeBinaryArray", pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers))


def as_strings(values: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as text, in the same memory; they are not validated."""
    return cast("pa.StringArray", values.view(pa.string()))
