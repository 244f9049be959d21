"""Copying bytes fast: one copy of a few words where Numba's loops take a step a byte.

Loads and stores of eight and four bytes at any address, and ``memcpy``, as LLVM instructions; none checks bounds, their
callers have. :func:`borrow` gives a named tuple of arrays whose references nobody counts, which is right for the time
of a call: counting them in inner functions takes several times as long as the copying. Without the JIT
(``NUMBA_DISABLE_JIT=1``) plain Python does the same.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from headwater.kernels import inline_kernel
from headwater.rows._text_bytes import Bytes, Int

QUOTE = 39
LOWS, QUOTES = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x2727272727272727)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any, bits: int = 8) -> Any:
    """A pointer to the element, as one to an integer of that many bits."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.IntType(bits).as_pointer())


def _loader(bits: int, result: Any) -> Any:
    def load(typing_context: Any, src: Any, at: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(
                _address(context, builder, signature.args[0], arguments[0], arguments[1], bits), align=1
            )

        return result(src, types.int64), codegen

    return load


def _storer(bits: int, value: Any) -> Any:
    def store(typing_context: Any, out: Any, at: Any, word: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, index, number = arguments
            builder.store(number, _address(context, builder, signature.args[0], array, index, bits), align=1)
            return context.get_dummy_value()

        return types.void(out, types.int64, value), codegen

    return store


def _copier(typing_context: Any, src: Any, start: Any, out: Any, o: Any, length: Any) -> Any:
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


def _uncounted(context: Any, builder: Any, array_type: Any, value: Any) -> Any:
    """The array's structure without its owner."""
    array = context.make_array(array_type)(context, builder, value)
    array.meminfo = ir.Constant(array.meminfo.type, None)
    array.parent = ir.Constant(array.parent.type, None)
    return array._getvalue()


def _borrower(typing_context: Any, table: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = cgutils.unpack_tuple(builder, arguments[0], len(table))
        values = [_uncounted(context, builder, kind, value) for kind, value in zip(table, arrays, strict=True)]
        return context.make_tuple(builder, table, values)

    return table(table), codegen


def _plain_copy(src: Bytes, start: Int, out: Bytes, o: Int, length: Int) -> None:
    out[o : o + length] = src[start : start + length]


if numba.config.DISABLE_JIT:

    def load_64(src: Bytes, at: Int) -> Int:
        """Eight bytes."""
        return src[at : at + 8].view(np.uint64)[0]

    def load_32(src: Bytes, at: Int) -> Int:
        """Four bytes."""
        return src[at : at + 4].view(np.uint32)[0]

    def store_64(out: Bytes, at: Int, word: Int) -> None:
        """Eight bytes."""
        out[at : at + 8] = np.frombuffer(np.uint64(word).tobytes(), np.uint8)

    def store_32(out: Bytes, at: Int, word: Int) -> None:
        """Four bytes."""
        out[at : at + 4] = np.frombuffer(np.uint32(word).tobytes(), np.uint8)

    def borrow(table: Any) -> Any:
        """The table itself."""
        return table

    copy_many = _plain_copy
else:
    load_64 = intrinsic(_loader(64, types.uint64))
    load_32 = intrinsic(_loader(32, types.uint32))
    store_64 = intrinsic(_storer(64, types.uint64))
    store_32 = intrinsic(_storer(32, types.uint32))
    borrow = intrinsic(_borrower)
    copy_many = intrinsic(_copier)


@inline_kernel
def put_bytes(src: Bytes, start: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Copy ``src[start:end]`` to ``out[o:]``; the caller has checked the bounds.

    Up to 64 bytes go as words, the last of which may overlap the one before.
    """
    n = end - start
    if n > 64:
        copy_many(src, start, out, o, n)
    elif n >= 8:
        done = 0
        while done < n - 8:
            store_64(out, o + done, load_64(src, start + done))
            done += 8
        store_64(out, o + n - 8, load_64(src, end - 8))
    elif n >= 4:
        store_32(out, o, load_32(src, start))
        store_32(out, o + n - 4, load_32(src, end - 4))
    else:
        for i in range(n):
            out[o + i] = src[start + i]
    return o + n


@inline_kernel
def put_doubled(src: Bytes, start: Int, end: Int, out: Bytes, o: Int) -> Int:
    """Copy ``src[start:end]`` with every ``'`` doubled to ``out[o:]``, eight bytes at a time where there is none.

    The caller has checked the bounds, with room for twice the length and eight bytes.
    """
    at = start
    while at < end and end - start >= 8:
        at = min(at, end - 8)
        word = load_64(src, at)
        other = word ^ QUOTES
        if ~((other & LOWS) + LOWS | other | LOWS):
            break
        store_64(out, o + at - start, word)
        at += 8
    o += at - start
    while at < end:
        byte = src[at]
        out[o] = byte
        o += 1
        if byte == QUOTE:
            out[o] = QUOTE
            o += 1
        at += 1
    return o
