"""Copying bytes fast: one copy of a few words where Numba's loops take a step a byte.

Loads and stores of eight and four bytes at any address, and ``memcpy``, as LLVM instructions; none checks bounds, their
callers have. With ``NUMBA_BOUNDSCHECK=1`` the kernels here check them all the same, as Numba's own indexing then does.
Without the JIT (``NUMBA_DISABLE_JIT=1``) plain Python does the work.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from headwater.base.kernels import inline_kernel
from headwater.rows._text_bytes import Bytes, Int

_IS_CHECKED = bool(numba.config.BOUNDSCHECK)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any, bits: int = 8) -> Any:
    """Return a pointer to the element, as one to an integer of that many bits."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.IntType(bits).as_pointer())


def _loader(bits: int, result: Any) -> Any:
    def load(_typing_context: Any, src: Any, _at: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(
                _address(context, builder, signature.args[0], arguments[0], arguments[1], bits), align=1
            )

        return result(src, types.int64), codegen

    return load


def _storer(bits: int, value: Any) -> Any:
    def store(_typing_context: Any, out: Any, _at: Any, _word: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, index, number = arguments
            builder.store(number, _address(context, builder, signature.args[0], array, index, bits), align=1)
            return context.get_dummy_value()

        return types.void(out, types.int64, value), codegen

    return store


def _copier(_typing_context: Any, src: Any, _start: Any, out: Any, _o: Any, _length: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, source_at, target, target_at, count = arguments
        cgutils.raw_memcpy(
            builder,
            _address(context, builder, signature.args[2], target, target_at),
            _address(context, builder, signature.args[0], source, source_at),
            count,
            1,
        )
        return context.get_dummy_value()

    return types.void(src, types.int64, out, types.int64, types.int64), codegen


def _plain_copy(src: Bytes, start: Int, out: Bytes, o: Int, length: Int) -> None:
    out[o : o + length] = src[start : start + length]


if numba.config.DISABLE_JIT:

    def load_64(src: Bytes, at: Int) -> Int:
        """Load eight bytes."""
        return src[at : at + 8].view(np.uint64)[0]

    def load_32(src: Bytes, at: Int) -> Int:
        """Load four bytes."""
        return src[at : at + 4].view(np.uint32)[0]

    def store_64(out: Bytes, at: Int, word: Int) -> None:
        """Store eight bytes."""
        out[at : at + 8] = np.frombuffer(np.uint64(word).tobytes(), np.uint8)

    def store_32(out: Bytes, at: Int, word: Int) -> None:
        """Store four bytes."""
        out[at : at + 4] = np.frombuffer(np.uint32(word).tobytes(), np.uint8)

    copy_many = _plain_copy
else:
    load_64 = intrinsic(_loader(64, types.uint64))
    load_32 = intrinsic(_loader(32, types.uint32))
    store_64 = intrinsic(_storer(64, types.uint64))
    store_32 = intrinsic(_storer(32, types.uint32))
    copy_many = intrinsic(_copier)


@inline_kernel
def read_u32(data: Bytes, at: Int) -> Int:
    """Read the little-endian uint32 at an offset (data uint8[], at bytes); the caller has checked the bounds."""
    if _IS_CHECKED and (at < 0 or at + 4 > len(data)):
        raise IndexError("read outside an array")
    return np.int64(load_32(data, at))


@inline_kernel
def copy(src: Bytes, at: Int, out: Bytes, o: Int, length: Int) -> Int:
    """Copy ``src[at:at+length]`` to ``out[o:]``; ranges of one array must not overlap. Returns the new ``o``.

    The caller has checked the bounds. Up to 64 bytes go as words, the last of which may overlap the one before.
    """
    if _IS_CHECKED and length > 0 and (at < 0 or at + length > len(src) or o < 0 or o + length > len(out)):
        raise IndexError("copy outside an array")
    if length > 64:
        copy_many(src, at, out, o, length)
    elif length >= 8:
        last, done = length - 8, 0
        while done < last:
            store_64(out, o + done, load_64(src, at + done))
            done += 8
        store_64(out, o + last, load_64(src, at + last))
    elif length >= 4:
        store_32(out, o, load_32(src, at))
        store_32(out, o + length - 4, load_32(src, at + length - 4))
    else:
        for i in range(length):
            out[o + i] = src[at + i]
    return o + length
