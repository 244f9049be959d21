"""Keys as numbers of 64 bits: equal keys have equal ones, different keys nearly always different ones.

Equal is what is stored the same way, as in :mod:`headwater.landing.mirrors.row_codes`. Of a key that is one integer no
two have the same number, and the number says which it is (:func:`integers_of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_WORD = 8
_ROWS = 1 << 20
"""Values that are hashed at a time."""
_SEED = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_FIRST_INVERSE, _SECOND_INVERSE = np.uint64(0x96DE1B173F119089), np.uint64(0x319642B2D24D8EC3)


def has_hash(type: pa.DataType) -> bool:
    """Tell whether keys of a type have numbers."""
    types = pa.types
    return bool(
        type == pa.uuid()
        or types.is_integer(type)
        or types.is_floating(type)
        or types.is_boolean(type)
        or types.is_temporal(type)
        or types.is_decimal128(type)
        or types.is_string(type)
        or types.is_binary(type)
        or types.is_fixed_size_binary(type)
    ) and not types.is_interval(type)


def is_told_by_hash(types: Sequence[pa.DataType]) -> bool:
    """Tell whether a key of columns of these types is known by its number."""
    return len(types) == 1 and pa.types.is_integer(types[0])


def key_hashes(columns: Sequence[pa.ChunkedArray[Any]]) -> Hashes:
    """Return uint64[n] the numbers of keys.

    Args:
        columns: of the keys, of equal length; one at least.
    """
    first, *others = map(_hashes, columns)
    for other in others:
        first = _mixed(first * _SEED + other)
    return first


def integers_of(hashes: Hashes) -> NDArray[np.int64]:
    """Return the keys that are integers, by their numbers."""
    values = hashes.copy()
    values ^= (values >> np.uint64(31)) ^ (values >> np.uint64(62))
    values *= _SECOND_INVERSE
    values ^= (values >> np.uint64(27)) ^ (values >> np.uint64(54))
    values *= _FIRST_INVERSE
    values ^= (values >> np.uint64(30)) ^ (values >> np.uint64(60))
    return (values - _SEED).view(np.int64)


def _mixed(words: Hashes) -> Hashes:
    """Return numbers of which each bit depends on all bits of a word; no two words have the same."""
    values = words + _SEED
    values ^= values >> np.uint64(30)
    values *= _FIRST
    values ^= values >> np.uint64(27)
    values *= _SECOND
    values ^= values >> np.uint64(31)
    return values


def _hashes(column: pa.ChunkedArray[Any]) -> Hashes:
    pieces = [chunk.slice(at, _ROWS) for chunk in column.chunks for at in range(0, len(chunk), _ROWS)]
    return np.concatenate([_piece_hashes(piece) for piece in pieces]) if pieces else np.zeros(0, np.uint64)


def _piece_hashes(values: pa.Array[Any]) -> Hashes:
    if isinstance(values, pa.ExtensionArray):
        return _piece_hashes(values.storage)
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return _hashes_of_bytes(values)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if pa.types.is_integer(values.type):
        return _mixed(_integers(values).view(np.uint64))
    width = values.type.byte_width
    content = _fixed(values, width)
    if width < _WORD:
        return _mixed(content.view(f"<u{width}").astype(np.uint64))
    return _hashes_of_words(content, width)


def _integers(values: pa.Array[Any]) -> NDArray[np.int64]:
    """Return integers; 0 for null, which no key is."""
    plain = values.fill_null(0) if values.null_count else values
    integers: NDArray[np.int64] = plain.to_numpy(zero_copy_only=False).astype(np.int64)
    return integers


def _fixed(values: pa.Array[Any], width: int) -> NDArray[np.uint8]:
    """Return the bytes of values of one width."""
    content = values.buffers()[1]
    assert content is not None
    own = content[values.offset * width : (values.offset + len(values)) * width].to_pybytes()
    return np.frombuffer(own, np.uint8)


def _hashes_of_words(content: NDArray[np.uint8], width: int) -> Hashes:
    """Return numbers of values that are several words each."""
    padded = np.zeros((len(content) // width, -(-width // _WORD) * _WORD), np.uint8)
    padded[:, :width] = content.reshape(-1, width)
    words = padded.view(np.uint64)
    hashes = _mixed(words[:, 0].copy())
    for number in range(1, words.shape[1]):
        hashes = _mixed(hashes * _SEED + words[:, number])
    return hashes


def _hashes_of_bytes(values: pa.Array[Any]) -> Hashes:
    """Return numbers of values of any length: the sum of their words, each mixed with its place."""
    offsets, content = _bytes(values)
    lengths = np.diff(offsets)
    counts = -(-lengths // _WORD)
    ends = np.cumsum(counts)
    owner = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(owner)) - (ends - counts)[owner]
    # Words begin at any byte.
    words = np.ndarray((len(content) - _WORD + 1,), np.dtype("<u8"), content.data, strides=(1,))
    word = words[offsets[owner] + number * _WORD].astype(np.uint64)
    left = np.minimum(lengths[owner] - number * _WORD, _WORD).astype(np.uint64)
    word &= ~np.uint64(0) >> (np.uint64(8) * (np.uint64(_WORD) - left))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(word + _mixed(number.astype(np.uint64))))])
    own = sums[ends] - sums[ends - counts]
    return _mixed(own + _mixed(lengths.astype(np.uint64)))


def _bytes(values: pa.Array[Any]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where values begin and end, and their bytes, with a word more behind them."""
    plain = values.fill_null("" if pa.types.is_string(values.type) else b"") if values.null_count else values
    array = cast("pa.StringArray", plain)
    _, places, content = array.buffers()
    assert places is not None
    own_places = places[array.offset * 4 : (array.offset + len(array) + 1) * 4].to_pybytes()
    offsets = np.frombuffer(own_places, np.int32).astype(np.int64)
    own = b"" if content is None else content[int(offsets[0]) : int(offsets[-1])].to_pybytes()
    return offsets - offsets[0], np.frombuffer(own + bytes(_WORD), np.uint8)
