"""Server encodings by number, and the Python codecs for them (PostgreSQL: ``mb/pg_wchar.h``, ``encnames.c``)."""

from __future__ import annotations

_NAMES = (
    "SQL_ASCII EUC_JP EUC_CN EUC_KR EUC_TW EUC_JIS_2004 UTF8 MULE_INTERNAL LATIN1 LATIN2 LATIN3 LATIN4 LATIN5 LATIN6 "
    "LATIN7 LATIN8 LATIN9 LATIN10 WIN1256 WIN1258 WIN866 WIN874 KOI8R WIN1251 WIN1252 ISO_8859_5 ISO_8859_6 "
    "ISO_8859_7 ISO_8859_8 WIN1250 WIN1253 WIN1254 WIN1255 WIN1257 KOI8U"
)
ENCODINGS = tuple(_NAMES.split())
"""Names as ``pg_encoding_to_char`` prints them; the number is the position."""

_CODECS = {
    "UTF8": "utf-8",
    "EUC_JP": "euc_jp",
    "EUC_CN": "gb2312",
    "EUC_KR": "euc_kr",
    "EUC_JIS_2004": "euc_jis_2004",
    "KOI8R": "koi8_r",
    "KOI8U": "koi8_u",
    "WIN866": "cp866",
    "WIN874": "cp874",
    **{name: f"cp{name[3:]}" for name in ENCODINGS if name.startswith("WIN125")},
    **{name: name.lower() for name in ENCODINGS if name.startswith("ISO_8859_")},
    **{f"LATIN{number}": f"iso8859_{part}" for number, part in enumerate((1, 2, 3, 4, 9, 10, 13, 14, 15, 16), 1)},
}


def encoding_name(number: int) -> str:
    """``pg_encoding_to_char``; empty for a number that is no server encoding."""
    return ENCODINGS[number] if 0 <= number < len(ENCODINGS) else ""


def codec_of(name: str) -> str:
    """The Python codec of a server encoding.

    Where Python has none, and for SQL_ASCII, ASCII; decode with ``surrogateescape`` so that every byte comes back.
    """
    return _CODECS.get(name, "ascii")


def decode_name(name: bytes, encoding: str) -> str:
    """A name or a label of a database of this encoding; bytes that are no text in it become surrogates."""
    return name.decode(codec_of(encoding), "surrogateescape")


def encode_name(text: str, encoding: str) -> bytes:
    """The bytes that a name or a label read from a catalog has in a database of this encoding.

    A name that does not occur in such a database, as it cannot be written in its encoding, becomes UTF-8.
    """
    try:
        return text.encode(codec_of(encoding), "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
