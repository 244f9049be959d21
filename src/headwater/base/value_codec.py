"""Values as bytes: files of kept values, and the values that driver and tasks hand each other.

In: values made of frozen dataclasses, named tuples, tuples, frozensets, dicts, enums, numbers, strings, bytes, None and
numpy arrays of numbers. Out: bytes, and the same value again. What a file says decides nothing but the value's content:
the reader names the type that it expects, and reading runs no code, so a file needs no trust (unlike a pickle). Equal
values have equal bytes.

The layout: magic, a digest of the type's shape, number of parts, their lengths; then the parts, each from a multiple of
64 bytes on, so that arrays are used where they lie in a mapped file. Part 0 is the structure as JSON; part 1 holds all
bytes values, joined in the order in which they occur; the others are arrays, or the one element of a column that is
constant, where the type says that it may be (:mod:`headwater.base.constant_columns`). Little-endian throughout.

A type whose fields have changed has another digest, and values of the former are refused. A record whose fields must
fit each other has a method ``check_parts``: an array and the offsets into it are an example. It is called when the
record has been read, and raises ValueError if they do not fit.
"""

from __future__ import annotations

import hashlib
import json
import struct
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, BinaryIO, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from headwater.base.constant_columns import MAY_BE_CONSTANT, constant, is_constant
from headwater.errors import FlatValueError

T = TypeVar("T")

ALIGNED = 64
_MAGIC = b"HWVALUE2"
_HEAD = struct.Struct("<8s16sQ")
_PLAIN: tuple[type, ...] = (int, bool, str, float)
_ELEMENTS = {dtype.str: dtype for dtype in (np.dtype(code).newbyteorder("<") for code in "?bhiqBHIQefd")}
"""Array elements, which are numbers, by the names they are written by. NumPy takes more, and parses it as Python."""


class _Writer:
    """The parts of a value that is being written."""

    def __init__(self) -> None:
        self.pool = bytearray()
        self.arrays: list[NDArray[np.generic]] = []

    def bytes(self, value: bytes) -> int:
        self.pool += value
        return len(value)

    def array(self, value: NDArray[np.generic]) -> list[Any]:
        element = value.dtype.newbyteorder("<")
        if element.str not in _ELEMENTS:
            raise TypeError(f"array of {value.dtype} cannot be written")
        little = np.ascontiguousarray(value, element)
        self.arrays.append(little)
        return [little.dtype.str, list(value.shape)]

    def column(self, value: NDArray[np.generic]) -> list[Any]:
        """Write an array that may be constant: then it is written as one element, and how often it stands there."""
        column = constant(value)
        return [*self.array(column[:1]), len(column)] if is_constant(column) else self.array(value)


class _Reader:
    """The parts of a value that is being read, taken in order."""

    def __init__(self, parts: list[memoryview]) -> None:
        self._pool = parts[1]
        self._arrays = iter(parts[2:])
        self._at = 0

    def bytes(self, length: Any) -> bytes:
        start, self._at = self._at, self._at + _expect(length, int)
        if length < 0 or self._at > len(self._pool):
            raise ValueError("bytes run over their end")
        return bytes(self._pool[start : self._at])

    def array(self, structure: Any, dtype: np.dtype[Any] | None) -> NDArray[np.generic]:
        name, shape = structure
        element = _ELEMENTS.get(name)
        if element is None or (dtype is not None and element != dtype):
            raise ValueError(f"array of {name}, expected {dtype}")
        return np.frombuffer(next(self._arrays), element).reshape([_expect(n, int) for n in shape])

    def column(self, structure: Any, dtype: np.dtype[Any] | None) -> NDArray[np.generic]:
        *array, length = structure if len(structure) == 3 else (*structure, None)
        values = self.array(array, dtype)
        return values if length is None else np.broadcast_to(values, _expect(length, int))


def _expect(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise ValueError(f"found {type(value).__name__}, expected {kind.__name__}")
    return value


class _Codec:
    """The way values of one type are written and read.

    Attributes:
        shape: says what the type is made of; part of the digest.
    """

    def __init__(self, kind: Any, may_be_constant: bool) -> None:
        self.kind = kind
        self.shape, self.put, self.get = _column(kind) if may_be_constant else _codec(kind)


Put = Callable[[Any, _Writer], Any]
Get = Callable[[Any, _Reader], Any]


@cache
def _of(kind: Any, may_be_constant: bool = False) -> _Codec:
    return _Codec(kind, may_be_constant)


def _codec(kind: Any) -> tuple[str, Put, Get]:
    origin, args = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return kind.__name__, lambda value, _: value, lambda structure, _: _expect(structure, kind)
    if kind is bytes:
        return "bytes", lambda value, out: out.bytes(value), lambda structure, source: source.bytes(structure)
    if origin in (Union, types.UnionType):
        return _optional(args)
    if origin is np.ndarray or kind is np.ndarray:
        return _array(args)
    if origin is tuple:
        return _tuple(args)
    if origin is frozenset:
        return _frozenset(args[0])
    if origin in (dict, Mapping):
        return _mapping(*args)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind.__name__, lambda value, _: value.name, lambda name, _: kind[name]
    if isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "_fields")):
        return _record(kind)
    raise TypeError(f"values of type {kind} cannot be written")


def _optional(args: tuple[Any, ...]) -> tuple[str, Put, Get]:
    rest = [arg for arg in args if arg is not type(None)]
    if len(rest) != 1:
        raise TypeError(f"a union of {len(rest)} types cannot be written")
    inner = rest[0]
    return (
        f"{_shape(inner)}?",
        lambda value, out: None if value is None else [_of(inner).put(value, out)],
        lambda structure, source: None if structure is None else _of(inner).get(structure[0], source),
    )


def _array(args: tuple[Any, ...]) -> tuple[str, Put, Get]:
    dtype = _element(args)
    return (
        f"array {dtype}",
        lambda value, out: out.array(value if dtype is None else np.asarray(value, dtype)),
        lambda structure, source: source.array(structure, dtype),
    )


def _column(kind: Any) -> tuple[str, Put, Get]:
    """Return the codec of an array of one dimension that may be constant (:mod:`headwater.base.constant_columns`)."""
    dtype = _element(get_args(kind))
    return (
        f"column {dtype}",
        lambda value, out: out.column(np.asarray(value, dtype)),
        lambda structure, source: source.column(structure, dtype),
    )


def _element(args: tuple[Any, ...]) -> np.dtype[Any] | None:
    """Return the type of an array's elements, if its type says so."""
    element = get_args(args[1])[0] if len(args) > 1 and get_args(args[1]) else np.generic
    is_fixed = isinstance(element, type) and not _is_abstract(element)
    return np.dtype(element).newbyteorder("<") if is_fixed else None


def _is_abstract(element: type) -> bool:
    return element in (np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.floating)


def _tuple(args: tuple[Any, ...]) -> tuple[str, Put, Get]:
    if len(args) == 2 and args[1] is Ellipsis:
        item = args[0]
        return (
            f"[{_shape(item)}]",
            lambda value, out: [_of(item).put(element, out) for element in value],
            lambda structure, source: tuple(_of(item).get(element, source) for element in structure),
        )
    return (
        f"({','.join(map(_shape, args))})",
        lambda value, out: [_of(arg).put(element, out) for arg, element in zip(args, value, strict=True)],
        lambda structure, source: tuple(
            _of(arg).get(element, source) for arg, element in zip(args, structure, strict=True)
        ),
    )


def _frozenset(item: Any) -> tuple[str, Put, Get]:
    return (
        f"{{{_shape(item)}}}",
        lambda value, out: [_of(item).put(element, out) for element in sorted(value)],
        lambda structure, source: frozenset(_of(item).get(element, source) for element in structure),
    )


def _mapping(key: Any, item: Any) -> tuple[str, Put, Get]:
    return (
        f"{{{_shape(key)}:{_shape(item)}}}",
        lambda value, out: [[_of(key).put(k, out), _of(item).put(value[k], out)] for k in sorted(value)],
        lambda structure, source: {_of(key).get(k, source): _of(item).get(v, source) for k, v in structure},
    )


def _record(kind: Any) -> tuple[str, Put, Get]:
    """Return the codec of a record: its fields in order, without those that do not count in comparisons."""
    checks = hasattr(kind, "check_parts")

    @cache
    def codecs() -> list[tuple[str, _Codec]]:
        return [(name, _of(hint, name in _columns(kind))) for name, hint in _hints(kind)]

    def put(value: Any, out: _Writer) -> list[Any]:
        return [codec.put(getattr(value, name), out) for name, codec in codecs()]

    def get(structure: Any, source: _Reader) -> Any:
        values = zip(codecs(), structure, strict=True)
        record = kind(**{name: codec.get(part, source) for (name, codec), part in values})
        if checks:
            record.check_parts()
        return record

    return kind.__name__, put, get


@cache
def _hints(kind: Any) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    names = kind._fields if hasattr(kind, "_fields") else [f.name for f in fields(kind) if f.init and f.compare]
    return [(name, hints[name]) for name in names]


@cache
def _columns(kind: Any) -> frozenset[str]:
    """Return the fields of a record that may be constant columns."""
    return (
        frozenset(f.name for f in fields(kind) if f.metadata == MAY_BE_CONSTANT) if is_dataclass(kind) else frozenset()
    )


def _shape(kind: Any, may_be_constant: bool = False) -> str:
    return _of(kind, may_be_constant).shape


@cache
def _digest(kind: Any) -> bytes:
    """Return 16 bytes that say what a type is made of, records inside it included."""
    descriptions, todo = {}, [kind]
    while todo:
        part = todo.pop()
        if str(part) in descriptions:
            continue
        is_record = isinstance(part, type) and (is_dataclass(part) or hasattr(part, "_fields"))
        parts = (
            _hints(part) if is_record else [("", arg) for arg in get_args(part) if arg not in (Ellipsis, type(None))]
        )
        parts = [] if get_origin(part) is np.ndarray else parts
        columns = _columns(part) if is_record else ()
        shapes = (f"{name}:{_shape(hint, name in columns)}" for name, hint in parts)
        descriptions[str(part)] = f"{_shape(part)}({','.join(shapes)})"
        todo += [hint for _, hint in parts]
    return hashlib.sha256("\n".join(sorted(descriptions.values())).encode()).digest()[:16]


def shape_digest(kind: type) -> bytes:
    """Return the digest of a type's shape, which its values are written with."""
    return _digest(kind)


def prepare(kind: Any) -> None:
    """Find out what a type is made of before its first value comes; that takes longer than a value does.

    Raises:
        TypeError: it is made of something that cannot be written.
    """
    _digest(kind)


def value_parts(value: object, kind: Any = None) -> Iterator[bytes | memoryview]:
    """Give the bytes of a value, piece by piece.

    Args:
        value: it.
        kind: its type; None for the value's class, which is a record.

    Raises:
        TypeError: it is made of something that cannot be written.
    """
    kind = type(value) if kind is None else kind
    out = _Writer()
    content = _of(kind).put(value, out)
    structure = json.dumps(content, separators=(",", ":")).encode()
    arrays = (array.reshape(-1).view(np.uint8).data for array in out.arrays)
    parts: list[memoryview] = [memoryview(structure), memoryview(out.pool), *arrays]
    head = _HEAD.pack(_MAGIC, _digest(kind), len(parts)) + struct.pack(f"<{len(parts)}Q", *map(len, parts))
    yield head
    yield bytes(-len(head) % ALIGNED)
    for part in parts:
        yield part
        yield bytes(-part.nbytes % ALIGNED)


def value_bytes(value: object, kind: Any = None) -> bytes:
    """Return the bytes of a value; see :func:`value_parts`."""
    return b"".join(value_parts(value, kind))


def write_value(sink: BinaryIO, value: object, kind: Any = None) -> None:
    """Write a value to a file; see :func:`value_parts`.

    Raises:
        OSError: the file does not take it.
    """
    for part in value_parts(value, kind):
        sink.write(part)


def read_value(kind: type[T], data: bytes | memoryview) -> T:
    """Return a value from its bytes; its arrays lie in ``data``.

    Args:
        kind: its type.
        data: what :func:`write_value` wrote.

    Raises:
        FlatValueError: the bytes are not of such a value.
    """
    view, expected = memoryview(data), cast(Any, kind)
    try:
        magic, digest, count = _HEAD.unpack_from(view)
        if magic != _MAGIC:
            raise ValueError(f"found magic {magic!r}, expected {_MAGIC!r}")
        if digest != _digest(expected):
            raise ValueError("written by another version")
        parts = list(_split(view, count))
        structure = json.loads(bytes(parts[0]))
        value: T = _of(expected).get(structure, _Reader(parts))
    except (ValueError, TypeError, LookupError, ArithmeticError, StopIteration, RecursionError, struct.error) as error:
        raise FlatValueError(f"not a value of type {getattr(kind, '__name__', kind)}: {error}") from None
    return value


def _split(view: memoryview, count: int) -> Iterator[memoryview]:
    if not 2 <= count <= len(view) // 8:
        raise ValueError(f"found {count} parts in {len(view)} bytes")
    at = _HEAD.size + 8 * count
    lengths = struct.unpack_from(f"<{count}Q", view, _HEAD.size)
    for length in lengths:
        at += -at % ALIGNED
        if at + length > len(view):
            raise ValueError(f"found {len(view)} bytes, expected at least {at + length}")
        yield view[at : at + length]
        at += length


def same(a: object, b: object) -> bool:
    """Tell whether two values of one record type are equal, arrays included."""
    return type(a) is type(b) and value_bytes(a) == value_bytes(b)
