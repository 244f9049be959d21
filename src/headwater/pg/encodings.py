"""Encodings of databases and clients: numbers, names, how characters are made, and names of a catalog as text.

PostgreSQL: ``mb/pg_wchar.h`` (numbers), ``encnames.c`` (names and aliases), ``wchar.c`` (which bytes are a character:
pg_verify_mbchar; how long one is: pg_encoding_mblen), ``mbutils.c`` (what is wrong with bytes). ``tests/plugins`` asks
servers whether they say the same.

Names of a catalog are Unicode here, by the server's own conversions (:mod:`headwater.pg.conversions`). Invariant: bytes
come back as they were; what is no character, or has not one Unicode character to itself, becomes surrogates.
"""

from __future__ import annotations

import re
from functools import lru_cache

from headwater.pg.conversions import characters, is_converted

_SERVER_NAMES = (
    "SQL_ASCII EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 UTF8 MULE_INTERNAL LATIN1 LATIN2 LATIN3 LATIN4 LATIN5 LATIN6 "
    "LATIN7 LATIN8 LATIN9 LATIN10 WIN1256 WIN1258 WIN866 WIN874 KOI8R WIN1251 WIN1252 ISO_8859_5 ISO_8859_6 "
    "ISO_8859_7 ISO_8859_8 WIN1250 WIN1253 WIN1254 WIN1255 WIN1257 KOI8U"
)
ENCODINGS = tuple(_SERVER_NAMES.split())
"""The encodings of databases; names as ``pg_encoding_to_char`` prints them; the number is the position."""

CLIENT_ENCODINGS = (*ENCODINGS, "SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "SHIFT_JIS_2004")
"""The encodings of clients: those of databases, and more after them."""

UTF8, SQL_ASCII, MULE_INTERNAL = "UTF8", "SQL_ASCII", "MULE_INTERNAL"

_ALIASES = {
    "abc": "WIN1258",
    "alt": "WIN866",
    "koi8": "KOI8R",
    "mskanji": "SJIS",
    "shiftjis": "SJIS",
    "tcvn": "WIN1258",
    "tcvn5712": "WIN1258",
    "unicode": "UTF8",
    "vscii": "WIN1258",
    "win": "WIN1251",
    "win932": "SJIS",
    "win936": "GBK",
    "win949": "UHC",
    "win950": "BIG5",
    "windows932": "SJIS",
    "windows936": "GBK",
    "windows949": "UHC",
    "windows950": "BIG5",
    **{f"iso8859{part}": f"LATIN{part}" for part in range(1, 5)},
    **{f"iso8859{part}": f"LATIN{number}" for number, part in enumerate((9, 10, 13, 14, 15, 16), 5)},
    **{f"windows{name[3:]}": name for name in ENCODINGS if name.startswith("WIN")},
}
"""Other names of encodings, in lower case and without signs."""

_BY_NAME = {re.sub(r"\W|_", "", name).lower(): name for name in CLIENT_ENCODINGS} | _ALIASES

CHARACTERS = {
    "UTF8": "c2-df 80-bf; e0 a0-bf 80-bf; e1-ec,ee-ef 80-bf 80-bf; ed 80-9f 80-bf; f0 90-bf 80-bf 80-bf; "
    "f1-f3 80-bf 80-bf 80-bf; f4 80-8f 80-bf 80-bf",
    "EUC_JP": "8e a1-df; 8f a1-fe a1-fe; a1-fe a1-fe",
    "EUC_CN": "a1-fe a1-fe",
    "EUC_KR": "a1-fe a1-fe",
    "EUC_TW": "8e a1-a7 a1-fe a1-fe; 80-8d,90-ff a1-fe",
    "EUC_JIS_2004": "8e a1-df; 8f a1-fe a1-fe; a1-fe a1-fe",
    "MULE_INTERNAL": "80,8e-8f,9e-ff; 81-8d 80-ff; 90-9b 80-ff 80-ff; 9c-9d 80-ff 80-ff 80-ff",
    "SJIS": "a1-df; 81-9f,e0-fc 40-7e,80-fc",
    "SHIFT_JIS_2004": "a1-df; 81-9f,e0-fc 40-7e,80-fc",
    "BIG5": "80-8c,8e-ff 01-ff; 8d 01-1f,21-ff",
    "GBK": "80-8c,8e-ff 01-ff; 8d 01-1f,21-ff",
    "UHC": "80-8c,8e-ff 01-ff; 8d 01-1f,21-ff",
    "GB18030": "81-fe 40-7e,80-fe; 81-fe 30-39 81-fe 30-39",
    "JOHAB": "80-8e,90-ff a1-fe; 8f a1-fe a1-fe",
}
"""The bytes that are a character beyond ASCII: each kind of character as ranges of hexadecimal numbers."""

SINGLE_BYTES = "80-ff"
"""The bytes that are a character beyond ASCII in all other encodings."""

_SS2, _SS3 = 0x8E, 0x8F
_EUC = {_SS2: 2, _SS3: 3}
_LENGTHS = {
    "EUC_JP": _EUC,
    "EUC_JIS_2004": _EUC,
    "EUC_KR": _EUC,
    "JOHAB": _EUC,
    "EUC_TW": {_SS2: 4, _SS3: 3},
    "EUC_CN": {_SS2: 3, _SS3: 3},
    "SJIS": dict.fromkeys(range(0xA1, 0xE0), 1),
    "SHIFT_JIS_2004": dict.fromkeys(range(0xA1, 0xE0), 1),
    "BIG5": {},
    "GBK": {},
    "UHC": {},
}
"""The length of a character that begins with a byte, where it is not 2."""

_MOST_SHOWN = 8


def encoding_name(number: int) -> str:
    """Return what ``pg_encoding_to_char`` does: the name, empty for a number that is no server encoding."""
    return ENCODINGS[number] if 0 <= number < len(ENCODINGS) else ""


def find_encoding(name: str) -> str | None:
    """Find the encoding that a name means in any of its spellings (pg_char_to_encoding), None if it means none."""
    return _BY_NAME.get("".join(c for c in name if c.isascii() and c.isalnum()).lower())


def can_send(database: str, client: str) -> bool:
    """Tell whether a server lets a client of one encoding into a database of another (PrepareClientEncoding)."""
    return database == client or SQL_ASCII in (database, client) or is_converted(database, client)


def byte_ranges(text: str) -> list[int]:
    """List the bytes of ranges such as ``80-8c,8e``."""
    ends = [part.partition("-") for part in text.split(",")]
    return [byte for low, _, high in ends for byte in range(int(low, 16), int(high or low, 16) + 1)]


def _length(encoding: str, text: bytes) -> int:
    """Return the length of the character that the text begins with, by its first byte (pg_encoding_mblen)."""
    first = text[0]
    if first < 0x80:
        return 1
    if encoding == "UTF8":
        return 2 if first & 0xE0 == 0xC0 else 3 if first & 0xF0 == 0xE0 else 4 if first & 0xF8 == 0xF0 else 1
    if encoding == "MULE_INTERNAL":
        return 2 if 0x81 <= first <= 0x8D else 3 if 0x90 <= first <= 0x9B else 4 if first in (0x9C, 0x9D) else 1
    if encoding == "GB18030":
        return len(text) if len(text) < 2 else 4 if 0x30 <= text[1] <= 0x39 else 2
    return _LENGTHS[encoding].get(first, 2) if encoding in _LENGTHS else 1


def first_byte_length(encoding: str, first: int) -> int:
    """Return the length of a character by its first byte; in GB18030 2, as both halves of one of 4 are read alike."""
    return _length(encoding, bytes((first, 0xFF)))


@lru_cache(maxsize=8)
def _kinds(encoding: str) -> tuple[tuple[frozenset[int], ...], ...]:
    """List the kinds of characters beyond ASCII, each as the bytes that may stand at each place."""
    kinds = CHARACTERS.get(encoding, SINGLE_BYTES).split("; ")
    return tuple(tuple(frozenset(byte_ranges(part)) for part in kind.split()) for kind in kinds)


def _is_character(encoding: str, text: bytes) -> bool:
    """Tell whether the text begins with a character."""
    if text[0] < 0x80:
        return text[0] != 0
    fits = (
        len(kind) <= len(text) and all(byte in some for byte, some in zip(text, kind, strict=False))
        for kind in _kinds(encoding)
    )
    return any(fits)


def conversion_error(database: str, client: str, text: bytes) -> str:
    """Word the server's error about text that it cannot send.

    See report_invalid_encoding, report_untranslatable_char.

    Args:
        database: the database's encoding.
        client: the client's encoding.
        text: the text from the character on that cannot be sent, or its first eight bytes.
    """
    checked = client if database == SQL_ASCII else database
    shown = " ".join(f"0x{byte:02x}" for byte in text[: min(_length(checked, text), _MOST_SHOWN)])
    if _is_character(checked, text):
        return f'character with byte sequence {shown} in encoding "{database}" has no equivalent in encoding "{client}"'
    return f'invalid byte sequence for encoding "{checked}": {shown}'


@lru_cache(maxsize=4)
def _unicode(encoding: str) -> tuple[dict[bytes, str], dict[str, bytes]]:
    """Map characters to the one Unicode character that each has to itself, and the other way round."""
    texts = {char: text.decode() for char, text in characters(encoding, UTF8)}
    back = {text: char for char, text in reversed(texts.items()) if len(text) == 1}
    return {char: text for text, char in back.items()}, back


def _is_plain(encoding: str) -> bool:
    """Tell whether names are taken for UTF-8: they are, may be, or nobody says what they are."""
    return encoding == SQL_ASCII or not is_converted(encoding, UTF8)


def decode_name(name: bytes, encoding: str) -> str:
    """Read a name or a label of a database of this encoding; bytes that are no text in it become surrogates."""
    if name.isascii() or _is_plain(encoding):
        return name.decode("utf-8", "surrogateescape")
    known, text, at = _unicode(encoding)[0], "", 0
    while at < len(name):
        end = at + max(_length(encoding, name[at:]), 1)
        char = name[at:end]
        text += char.decode() if char.isascii() else known.get(char) or char.decode("ascii", "surrogateescape")
        at = end
    return text


def malformed_text(text: bytes, encoding: str) -> str | None:
    """Word the server's error about text of a client that cannot be read; None if it can be.

    Args:
        text: as the client has sent it; encoding: the client's.
    """
    decoded = "" if text.isascii() else decode_name(text, encoding)
    at = next((i for i, char in enumerate(decoded) if "\udc80" <= char <= "\udcff"), None)
    if at is None:
        return None
    source = UTF8 if _is_plain(encoding) else encoding
    return conversion_error(source, UTF8, text[len(encode_text(decoded[:at], encoding)) :])


def encode_text(text: str, encoding: str) -> bytes:
    """Write text in this encoding.

    Raises:
        UnicodeEncodeError: the text has a character that the encoding has not.
    """
    if text.isascii() or _is_plain(encoding):
        return text.encode("utf-8", "surrogateescape")
    known = _unicode(encoding)[1]
    return b"".join(known.get(char) or char.encode("ascii", "surrogateescape") for char in text)


def encode_name(text: str, encoding: str) -> bytes:
    """Return the bytes that a name or a label read from a catalog has in a database of this encoding.

    A name that does not occur in such a database, as it cannot be written in its encoding, becomes UTF-8.
    """
    try:
        return encode_text(text, encoding)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
