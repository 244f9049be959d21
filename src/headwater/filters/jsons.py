"""Functions of json and jsonb.

A jsonb value that a function has made is held as its text after :data:`MADE`, which no stored jsonb begins with.
Stored ones are read by way of their text (``_text_json``). Numbers stay as they are written, and compare as numerics.

PostgreSQL: ``jsonfuncs.c``, ``jsonb_op.c``, ``jsonb_util.c`` (JsonbDeepContains, compareJsonbContainers), ``jsonb.c``
(cannotCastJsonbValue).

Known gaps: the order of jsonb values, paths of jsonpath, changes of values; strings of json in a database that is not
in UTF8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import numpy as np

from headwater.errors import ExpressionError, RecordError, UnsupportedFilterError
from headwater.filters.functions import Compute, Context, each, register
from headwater.filters.numerics import Number, as_float, as_integer, number_of_text, stored_number
from headwater.filters.parts import elements_of
from headwater.pg.encodings import UTF8
from headwater.pg.version import VERSIONS
from headwater.rows.text._json import write_jsonb

MADE = b"\xff\xff\xff\xff"
_TEXT_ARRAY = 1009
_KEPT_BYTES = 2048
"""The size up to which values are cached: several parts of a filter may look at the same values."""

_INDEX = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+")
_INT32 = range(-(1 << 31), 1 << 31)
_BLANKS = re.compile(r"[ \t\n\r]*")
_ESCAPES = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_MISSING = object()


@dataclass(frozen=True)
class Figure:
    """A number, as it is written."""

    text: str

    @property
    def number(self) -> Number:
        """The value of the number."""
        return number_of_text(self.text)


def parsed(payload: bytes) -> Any:
    """Parse a jsonb value to a dictionary, a list, a string, a :class:`Figure`, a truth value or None.

    Raises:
        RecordError: the value is malformed.
    """
    return _kept(payload) if len(payload) <= _KEPT_BYTES else _parsed(payload)


@lru_cache(maxsize=1 << 10)
def _kept(payload: bytes) -> Any:
    return _parsed(payload)


def _parsed(payload: bytes) -> Any:
    return json.loads(jsonb_text(payload), parse_float=Figure, parse_int=Figure, parse_constant=Figure)


def jsonb_text(payload: bytes) -> str:
    """Print a stored jsonb value as the server prints it.

    Raises:
        RecordError: the value is malformed.
    """
    if payload.startswith(MADE):
        return payload[len(MADE) :].decode(errors="surrogateescape")
    source, room = np.frombuffer(bytearray(payload), dtype=np.uint8), 4 * len(payload) + 64
    while True:
        out = np.empty(room, dtype=np.uint8)
        end = write_jsonb(source, 0, len(payload), out, 0)
        if end != -1 or room > 1 << 32:
            break
        room *= 8
    if end < 0:
        raise RecordError("malformed jsonb in a column of a row filter")
    return out[:end].tobytes().decode(errors="surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def written(value: Any) -> str:
    """Print a parsed value as the server prints a jsonb (JsonbToCString)."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_string(key)}: {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, Figure):
        return value.text
    if isinstance(value, str):
        return _string(value)
    return {None: "null", True: "true", False: "false"}[value]


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _made(value: Any) -> bytes | None:
    return None if value is _MISSING else MADE + _encoded(written(value))


def _as_text(value: Any) -> bytes | None:
    """Return the text that ``->>`` gives, None for NULL."""
    if value is _MISSING or value is None:
        return None
    return _encoded(value if isinstance(value, str) else written(value))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", Figure: "number"}
    return next((name for type, name in names.items() if isinstance(value, type)), "null")


# Fields and items of a value.


def _field(value: Any, key: str) -> Any:
    return value.get(key, _MISSING) if isinstance(value, dict) else _MISSING


def _item(value: Any, index: int) -> Any:
    """Return an item of an array; a single value counts as an array of one."""
    if isinstance(value, dict):
        return _MISSING
    return _at(value if isinstance(value, list) else [value], index)


def _at(values: list[Any], index: int) -> Any:
    index += len(values) if index < 0 else 0
    return values[index] if 0 <= index < len(values) else _MISSING


def _along(value: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, _MISSING)
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) in _INT32:
            value = _at(value, int(step))
        else:
            return _MISSING
    return value


def _path(context: Context, payload: bytes) -> list[str] | None:
    """Return the steps of a path; None if one is NULL."""
    steps = elements_of(_TEXT_ARRAY, context.settings.major, payload)
    texts = [step.decode(errors="surrogateescape") for step in steps if step is not None]
    return texts if len(texts) == len(steps) else None


def _by_key(give: Callable[[Any], bytes | None]) -> Compute:
    return each(lambda _, value, key: give(_field(parsed(value), key.decode(errors="surrogateescape"))))


def _by_index(give: Callable[[Any], bytes | None]) -> Compute:
    return each(lambda _, value, index: give(_item(parsed(value), index)))


def _by_path(give: Callable[[Any], bytes | None]) -> Compute:
    def extract(context: Context, value: bytes, path: bytes) -> bytes | None:
        steps = _path(context, path)
        return None if steps is None else give(_along(parsed(value), steps))

    return each(extract)


# Comparison.


def _is_same(left: Any, right: Any) -> bool:
    kind = _kind(left)
    if kind != _kind(right):
        return False
    if kind == "number":
        return bool(left.number.fraction == right.number.fraction)
    if kind == "array":
        return len(left) == len(right) and all(map(_is_same, left, right))
    if kind == "object":
        return left.keys() == right.keys() and all(_is_same(item, right[key]) for key, item in left.items())
    return bool(left == right)


def _contains(outer: Any, inner: Any) -> bool:
    if isinstance(outer, dict) != isinstance(inner, dict):
        return False
    if isinstance(outer, dict) or (isinstance(inner, list) and isinstance(outer, list)):
        return _holds(outer, inner)
    if isinstance(inner, list):
        return False
    members = outer if isinstance(outer, list) else [outer]
    return any(_is_same(item, inner) for item in members)


def _holds(outer: Any, inner: Any) -> bool:
    """Tell whether a container has all that another one has (JsonbDeepContains)."""
    if isinstance(inner, dict):
        return isinstance(outer, dict) and all(
            key in outer and _covers(outer[key], item) for key, item in inner.items()
        )
    return isinstance(outer, list) and all(any(_covers(member, item) for member in outer) for item in inner)


def _covers(outer: Any, inner: Any) -> bool:
    if isinstance(inner, dict | list):
        return _holds(outer, inner)
    return _is_same(outer, inner)


def _has_key(value: Any, key: str) -> bool:
    if isinstance(value, dict | list):
        return any(isinstance(item, str) and item == key for item in value)
    return isinstance(value, str) and value == key


def _has_keys(decide: Callable[[Any], bool]) -> Compute:
    """Make a test of several keys; NULLs among the keys are skipped."""

    def has(context: Context, value: bytes, keys: bytes) -> bool:
        listed = elements_of(_TEXT_ARRAY, context.settings.major, keys)
        texts = [key.decode(errors="surrogateescape") for key in listed if key is not None]
        container = parsed(value)
        return decide(_has_key(container, key) for key in texts)

    return each(has)


# Casts.


def _cast(kind: str, name: str, convert: Callable[[Context, Any], Any]) -> Compute:
    def cast(context: Context, payload: bytes) -> Any:
        value = parsed(payload)
        actual = _kind(value)
        if actual == kind:
            return convert(context, value)
        if actual == "null" and VERSIONS[context.settings.major].casts_jsonb_null:
            return None
        raise ExpressionError(f"cannot cast jsonb {'numeric' if actual == 'number' else actual} to type {name}")

    return each(cast)


def _length(_: Context, payload: bytes) -> int:
    value = parsed(payload)
    if not isinstance(value, list):
        raise ExpressionError(f"cannot get array length of a {'non-array' if isinstance(value, dict) else 'scalar'}")
    return len(value)


# json, which is the text that a client has sent.


def needs_utf8(context: Context) -> None:
    """Refuse databases in other encodings, which may not have the character of an escape."""
    if context.settings.encoding != UTF8:
        raise UnsupportedFilterError(
            f"{context.function.signature} (OID {context.function.oid}) is not supported in a database in "
            f"{context.settings.encoding}"
        )


_DECODER = json.JSONDecoder()


def _checked(payload: bytes) -> str:
    """Return the text of a json after a check that the server can read all of its strings."""
    text = payload.decode()
    high = False
    for match in _ESCAPES.finditer(text):
        code = int(match[1][1:], 16) if match[1][0] == "u" else -1
        if code == 0:
            raise ExpressionError("unsupported Unicode escape sequence")
        if high != (0xDC00 <= code < 0xE000):
            raise UnsupportedFilterError("a json value with half of a surrogate pair is not supported")
        high = 0xD800 <= code < 0xDC00
    if high:
        raise UnsupportedFilterError("a json value with half of a surrogate pair is not supported")
    return text


def _after_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _members(text: str) -> dict[str, str] | list[str] | None:
    """Return the raw texts of an object's or array's members, of equal keys the last one; None for another value."""
    at = _after_blanks(text, 0)
    opening = text[at]
    if opening not in "{[":
        return None
    members: dict[str, str] = {}
    items = list[str]()
    at = _after_blanks(text, at + 1)
    while text[at] not in "}]":
        key = ""
        if opening == "{":
            key, at = scanstring(text, at + 1, False)
            at = _after_blanks(text, _after_blanks(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        members[key] = text[at:end]
        items.append(text[at:end])
        at = _after_blanks(text, end)
        at = _after_blanks(text, at + 1) if text[at] == "," else at
    return members if opening == "{" else items


def _member(text: str, step: str | int) -> str | None:
    members = _members(text)
    if isinstance(members, dict):
        return members.get(step) if isinstance(step, str) else None
    if members is None or isinstance(step, str):
        return None
    step += len(members) if step < 0 else 0
    return members[step] if 0 <= step < len(members) else None


def _raw_as_text(raw: str | None) -> bytes | None:
    if raw is None or raw == "null":
        return None
    return _encoded(scanstring(raw, 1, False)[0]) if raw[0] == '"' else _encoded(raw)


def _raw(raw: str | None) -> bytes | None:
    return None if raw is None else _encoded(raw)


def _by_member(give: Callable[[str | None], bytes | None]) -> Compute:
    def get(_: Context, value: bytes, step: bytes | int) -> bytes | None:
        return give(_member(_checked(value), step.decode() if isinstance(step, bytes) else step))

    return each(get)


def _json_type(_: Context, payload: bytes) -> bytes:
    first = payload.lstrip(b" \t\n\r")[:1]
    names = {b"{": b"object", b"[": b"array", b'"': b"string", b"t": b"boolean", b"f": b"boolean", b"n": b"null"}
    return names.get(first, b"number")


register("jsonb_object_field", _by_key(_made))
register("jsonb_object_field_text", _by_key(_as_text))
register("jsonb_array_element", _by_index(_made))
register("jsonb_array_element_text", _by_index(_as_text))
register("jsonb_extract_path", _by_path(_made))
register("jsonb_extract_path_text", _by_path(_as_text))
register("jsonb_eq", each(lambda _, left, right: _is_same(parsed(left), parsed(right))))
register("jsonb_ne", each(lambda _, left, right: not _is_same(parsed(left), parsed(right))))
register("jsonb_contains", each(lambda _, outer, inner: _contains(parsed(outer), parsed(inner))))
register("jsonb_contained", each(lambda _, inner, outer: _contains(parsed(outer), parsed(inner))))
register("jsonb_exists", each(lambda _, value, key: _has_key(parsed(value), key.decode(errors="surrogateescape"))))
register("jsonb_exists_any", _has_keys(any))
register("jsonb_exists_all", _has_keys(all))
register("jsonb_typeof", each(lambda _, value: _kind(parsed(value)).encode()))
register("jsonb_array_length", each(_length))
register("jsonb_bool", _cast("boolean", "boolean", lambda _, value: value))
register("jsonb_numeric", _cast("number", "numeric", lambda _, value: stored_number(value.number)))
for _size, _name in ((2, "smallint"), (4, "integer"), (8, "bigint")):
    register(f"jsonb_int{_size}", _cast("number", _name, lambda context, value: as_integer(context, value.number)))
for _size, _name in ((4, "real"), (8, "double precision")):
    register(f"jsonb_float{_size}", _cast("number", _name, lambda context, value: as_float(context, value.number)))
register(["json_object_field", "json_array_element"], _by_member(_raw), needs_utf8)
register(["json_object_field_text", "json_array_element_text"], _by_member(_raw_as_text), needs_utf8)
register("json_typeof", each(_json_type))
