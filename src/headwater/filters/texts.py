"""Functions of text, character(n), name, "char", bytea and bit strings.

Characters are those of the database's encoding: UTF8, or one of single bytes; databases in another encoding are refused
where characters count. Letters are those of ASCII, as in the collation "C". Where the collation knows others, functions
that go by letters are refused, or take values of ASCII only.

PostgreSQL: ``varlena.c``, ``oracle_compat.c``, ``varchar.c``, ``char.c``, ``name.c``, ``varbit.c``.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from hashlib import md5, sha224, sha256, sha384, sha512
from typing import Any

import numpy as np

from headwater.errors import ExpressionError, UnsupportedFilterError
from headwater.filters.functions import Context, each, needs_ascii_letters, needs_plain_letters, register
from headwater.filters.values import Plain, Spans, Values, retyped
from headwater.pg.encodings import CHARACTERS, UTF8
from headwater.rows.columns import _stored_columns

_VARLENA = 4
_LARGEST = 0x3FFFFFFF
_INT_MAX = 2**31 - 1
_NAME_BYTES = 63
_LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_UPPER = bytes.maketrans(string.ascii_lowercase.encode(), string.ascii_uppercase.encode())


def codec(context: Context) -> str:
    """Return Python's codec that turns each character of the database into one of a string."""
    return "utf-8" if context.settings.encoding == UTF8 else "latin-1"


def needs_characters(context: Context) -> None:
    """Refuse encodings whose characters are not known here."""
    encoding = context.settings.encoding
    if encoding != UTF8 and encoding in CHARACTERS:
        raise UnsupportedFilterError(
            f"{context.function.signature} (OID {context.function.oid}) counts characters, which are not known here of "
            f"databases in {encoding}"
        )


def of_text(function: Callable[..., Any]) -> Callable[..., Values]:
    """Turn a function of strings into one of columns: bytes are decoded for it, a string that it returns is encoded."""

    def of_row(context: Context, *values: Any) -> Any:
        name = codec(context)
        result = function(*(value.decode(name) if isinstance(value, bytes) else value for value in values))
        return result.encode(name) if isinstance(result, str) else result

    return each(of_row)


def _text(names: str, function: Callable[..., Any]) -> None:
    register(names.split(), of_text(function), needs_characters)


def _bytes(names: str, function: Callable[..., Any]) -> None:
    register(names.split(), each(lambda _, *values: function(*values)))


def _checked(size: int) -> None:
    if size + _VARLENA > _LARGEST:
        raise ExpressionError("requested length too large")


def _same(context: Context, value: Values) -> Values:
    return retyped(value, context.result)


# Lengths.


def _octets(_: Context, value: Spans) -> Plain:
    return Plain(value.length.astype(np.int32), value.null)


def _text_length(context: Context, value: Spans) -> Values:
    """Count the characters of texts."""
    if context.settings.encoding != UTF8:
        return _octets(context, value)
    count = np.empty(len(value), dtype=np.int32)
    _stored_columns.count_characters(value.for_kernels, count)
    return Plain(count, value.null)


# Length coercion.


def _varchar(value: str, typmod: int, explicit: bool) -> str:
    most = typmod - _VARLENA
    if most < 0 or len(value) <= most:
        return value
    if not explicit and value[most:].strip(" "):
        raise ExpressionError(f"value too long for type character varying({most})")
    return value[:most]


def _bpchar(value: str, typmod: int, explicit: bool) -> str:
    most = typmod - _VARLENA
    if most < 0 or len(value) == most:
        return value
    if not explicit and value[most:].strip(" "):
        raise ExpressionError(f"value too long for type character({most})")
    return value[:most].ljust(most)


def _bit(value: bytes, most: int, explicit: bool) -> bytes:
    size = int.from_bytes(value[:4], "little")
    if most <= 0 or size == most:
        return value
    if not explicit:
        raise ExpressionError(f"bit string length {size} does not match type bit({most})")
    return _cut_bits(value, most)


def _varbit(value: bytes, most: int, explicit: bool) -> bytes:
    size = int.from_bytes(value[:4], "little")
    if most <= 0 or size <= most:
        return value
    if not explicit:
        raise ExpressionError(f"bit string too long for type bit varying({most})")
    return _cut_bits(value, most)


def _cut_bits(value: bytes, size: int) -> bytes:
    bits = bytearray(value[4:].ljust((size + 7) // 8, b"\0")[: (size + 7) // 8])
    if size % 8:
        bits[-1] &= 0xFF << (8 - size % 8) & 0xFF
    return size.to_bytes(4, "little") + bytes(bits)


# Parts.


def _substring(value: Any, start: int, length: int | None = None) -> Any:
    first = max(start, 1)
    if length is None:
        return value[first - 1 :]
    if length < 0:
        raise ExpressionError("negative substring length not allowed")
    end = start + length
    if end > _INT_MAX:
        return value[first - 1 :]
    return value[first - 1 : end - 1] if end > first else value[:0]


def _left(value: str, count: int) -> str:
    return value[:count] if count >= 0 else value[: max(len(value) + count, 0)]


def _right(context: Context, payload: bytes, count: int) -> bytes:
    name = codec(context)
    value = payload.decode(name)
    if count < -_INT_MAX and not context.settings.version.cuts_by_least_integer:
        return payload
    return (value[max(len(value) - count, 0) :] if count >= 0 else value[-count:]).encode(name)


def _split_part(value: str, separator: str, field: int) -> str:
    if field == 0:
        raise ExpressionError("field position must not be zero")
    if not value or not separator:
        return value if field in (1, -1) else ""
    parts = value.split(separator)
    at = field - 1 if field > 0 else field + len(parts)
    return parts[at] if 0 <= at < len(parts) else ""


# Changes.


def _pad(is_left: bool) -> Callable[[str, int, str], str]:
    def pad(value: str, length: int, filler: str = " ") -> str:
        length = max(length, 0)
        _checked(4 * length)
        value = value[:length]
        more = length - len(value) if filler else 0
        padding = (filler * (more // len(filler) + 1))[:more] if more else ""
        return padding + value if is_left else value + padding

    return pad


def _trim(left: bool, right: bool) -> Callable[..., Any]:
    def trim(value: Any, characters: Any = " ") -> Any:
        value = value.lstrip(characters) if left and characters else value
        return value.rstrip(characters) if right and characters else value

    return trim


def _replace(value: str, old: str, new: str) -> str:
    return value.replace(old, new) if old else value


def _repeat(value: str, count: int) -> str:
    _checked(max(count, 0) * len(value.encode(errors="replace")))
    return value * count


def _translate(value: str, old: str, new: str) -> str:
    table: dict[str, str] = {}
    for at, character in enumerate(old):
        table.setdefault(character, new[at] if at < len(new) else "")
    return "".join(table.get(character, character) for character in value)


def _cased(table: bytes) -> Callable[[Context, bytes], bytes]:
    def cased(context: Context, value: bytes) -> bytes:
        context.require_ascii(value)
        return value.translate(table)

    return cased


def _initcap(value: bytes) -> bytes:
    """Make letters after letters and digits lower case, others upper case."""
    letters, inside = bytearray(), False
    for byte in value:
        letters += bytes([byte]).translate(_LOWER if inside else _UPPER)
        inside = bytes([byte]).isalnum()
    return bytes(letters)


# Between types.


def _as_name(context: Context, value: bytes) -> bytes:
    """Cut a text, between characters, to the bytes that a name holds."""
    if len(value) <= _NAME_BYTES:
        return value
    name = codec(context)
    return value[:_NAME_BYTES].decode(name, errors="ignore").encode(name)


def _name_of_bpchar(context: Context, value: bytes) -> bytes:
    return _as_name(context, value).rstrip(b" ")


def _letter_text(value: int) -> bytes:
    if value >= 128:
        return b"\\%o" % value
    return bytes([value]) if value else b""


def _text_letter(value: bytes) -> int:
    is_octal = len(value) == 4 and value[0] == 92 and all(48 <= digit < 56 for digit in value[1:])
    return int(value[1:], 8) & 255 if is_octal else value[0] if value else 0


def _int_letter(value: int) -> int:
    if not -128 <= value <= 127:
        raise ExpressionError('"char" out of range')
    return value & 255


def _ascii(context: Context, value: bytes) -> int:
    return ord(value.decode(codec(context))[:1] or "\0")


def _chr(context: Context, code: int) -> bytes:
    if code < 0:
        raise ExpressionError("character number must be positive")
    if code == 0:
        raise ExpressionError("null character not permitted")
    is_utf8 = context.settings.encoding == UTF8
    if code > (0x10FFFF if is_utf8 else 255):
        raise ExpressionError(f"requested character too large for encoding: {code}")
    if is_utf8 and 0xD800 <= code <= 0xDFFF:
        raise ExpressionError(f"requested character not valid for encoding: {code}")
    return chr(code).encode(codec(context))


def _hex(bits: int) -> Callable[[int], bytes]:
    return lambda value: b"%x" % (value & (1 << bits) - 1)


def _byte_at(value: bytes, at: int) -> int:
    if not 0 <= at < len(value):
        raise ExpressionError(f"index {at} out of valid range, 0..{len(value) - 1}")
    return value[at]


def _bit_count(value: bytes) -> int:
    return int.from_bytes(value, "big").bit_count()


def _bit_length(value: bytes) -> int:
    return int.from_bytes(value[:4], "little")


register(["textoctetlen", "bpcharoctetlen", "byteaoctetlen"], _octets)
register("textlen", _text_length, needs_characters)
_text("bpcharlen", lambda value: len(value.rstrip(" ")))
_text("varchar", _varchar)
_text("bpchar", _bpchar)
_bytes("bit", _bit)
_bytes("varbit", _varbit)
_bytes("bitlength", _bit_length)
_bytes("bitoctetlength", lambda value: len(value) - 4)
_text("text_substr text_substr_no_len", _substring)
_bytes("bytea_substr bytea_substr_no_len", _substring)
_text("text_left", _left)
register("text_right", each(_right), needs_characters)
_text("split_part", _split_part)
_text("textpos", lambda value, part: value.find(part) + 1)
_bytes("byteapos", lambda value, part: value.find(part) + 1)
_bytes("text_starts_with", lambda value, start: value.startswith(start))
_text("lpad lpad(text,int4)", _pad(True))
_text("rpad rpad(text,int4)", _pad(False))
_text("btrim btrim1", _trim(True, True))
_text("ltrim ltrim1", _trim(True, False))
_text("rtrim rtrim1", _trim(False, True))
_bytes("byteatrim", _trim(True, True))
_bytes("bytealtrim", _trim(True, False))
_bytes("byteartrim", _trim(False, True))
_text("replace_text", _replace)
_text("repeat", _repeat)
_text("text_reverse", lambda value: value[::-1])
_text("translate", _translate)
_bytes("textcat byteacat", lambda left, right: left + right)
register("lower", each(_cased(_LOWER)), needs_ascii_letters)
register("upper", each(_cased(_UPPER)), needs_ascii_letters)
register("initcap", each(lambda _, value: _initcap(value)), needs_plain_letters)
register("name_text", _same)
register(["text_name", "name_bpchar"], each(_as_name), needs_characters)
register("bpchar_name", each(_name_of_bpchar), needs_characters)
_bytes("char_text char_bpchar", _letter_text)
_bytes("text_char", _text_letter)
_bytes("chartoi4", lambda value: (value ^ 128) - 128)
_bytes("i4tochar", _int_letter)
register("ascii", each(_ascii), needs_characters)
register("chr", each(_chr), needs_characters)
_bytes("to_hex32", _hex(32))
_bytes("to_hex64", _hex(64))
_bytes("byteaGetByte", _byte_at)
_bytes("bytea_bit_count", _bit_count)
_bytes("md5_text md5_bytea", lambda value: md5(value, usedforsecurity=False).hexdigest().encode())
for _name, _digest in (("sha224", sha224), ("sha256", sha256), ("sha384", sha384), ("sha512", sha512)):
    _bytes(f"{_name}_bytea", lambda value, digest=_digest: digest(value).digest())
