"""Text of one encoding in another: the kernels against a plain twin, valid text, any bytes, too little room."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DecodingError
from headwater.pg.conversions import characters, is_converted
from headwater.pg.encodings import CHARACTERS, SINGLE_BYTES, byte_ranges, conversion_error, find_encoding
from headwater.rows import _conversion
from headwater.rows._text_codes import NEED_SPACE
from headwater.rows.conversion import (
    NO_CONVERSION,
    ConversionFailure,
    converted_cells,
    converted_messages,
    converted_text,
    converted_texts,
    make_conversion,
)
from headwater.rows.items import BINARY, NULL, REFUSED, TEXT, Cells, Messages

pytestmark = pytest.mark.interpreted

PAIRS = [
    ("UTF8", "LATIN1"),
    ("UTF8", "SJIS"),
    ("UTF8", "EUC_JIS_2004"),
    ("LATIN1", "UTF8"),
    ("EUC_JP", "UTF8"),
    ("EUC_JP", "SJIS"),
    ("EUC_JIS_2004", "UTF8"),
    ("EUC_TW", "BIG5"),
    ("SQL_ASCII", "UTF8"),
    ("SQL_ASCII", "GB18030"),
    ("SQL_ASCII", "SJIS"),
    ("SQL_ASCII", "LATIN1"),
]
WORDS = ["plain", "Táblaÿ", "表テーブル", "か゚か", "か", "゚", "𠀋😀", "\x7f\x01", "eight bytes and more of ASCII, "]


@cache
def known(database: str, client: str) -> dict[bytes, bytes]:
    """Return what becomes of characters, by the tables."""
    ascii_characters = {bytes([byte]): bytes([byte]) for byte in range(1, 128)}
    return ascii_characters | dict(characters(database, client))


def plain_valid(encoding: str, text: bytes, at: int) -> int:
    """Return the length of a character, 0 if there is none."""
    if text[at] < 0x80:
        return int(text[at] != 0)
    for kind in CHARACTERS.get(encoding, SINGLE_BYTES).split("; "):
        places = [byte_ranges(part) for part in kind.split()]
        piece = text[at : at + len(places)]
        if len(piece) == len(places) and all(byte in place for byte, place in zip(piece, places, strict=True)):
            return len(piece)
    return 0


def plain_convert(database: str, client: str, text: bytes) -> bytes | int:
    """Return the other text, or the place of what cannot be sent; two characters that are one first."""
    made, at = b"", 0
    while at < len(text):
        if database == "SQL_ASCII":
            size = plain_valid(client, text, at)
            other: bytes | None = text[at : at + size] if size else None
        else:
            size = next((n for n in range(6, 0, -1) if text[at : at + n] in known(database, client)), 0)
            other = known(database, client).get(text[at : at + size])
        if not size or other is None:
            return at
        made, at = made + other, at + size
    return made


def texts(database: str) -> st.SearchStrategy[bytes]:
    """Draw words of an encoding among others, and bytes between them."""
    codec = {"UTF8": "utf-8", "EUC_JP": "euc_jp", "EUC_JIS_2004": "euc_jis_2004", "EUC_TW": "utf-8"}.get(database)
    words = st.sampled_from(WORDS).map(lambda word: word.encode(codec or "utf-8", "ignore"))
    return st.lists(words | st.binary(max_size=3), max_size=6).map(b"".join)


@pytest.mark.parametrize(("database", "client"), PAIRS)
@given(st.data())
def test_texts_are_those_of_the_tables(database: str, client: str, data: st.DataObject) -> None:
    text = data.draw(texts(database))
    expected = plain_convert(database, client, text)
    conversion = make_conversion(database, client)
    out = np.full(len(text) * 4 + 16, 0x55, np.uint8)
    src = np.frombuffer(b"<" + text + b">", np.uint8).copy()
    end = _conversion.convert(conversion, src, 1, len(text), out, 3)
    if isinstance(expected, int):
        assert end == _conversion.REFUSES - expected
    else:
        assert out[3:end].tobytes() == expected
        assert (out[:3] == 0x55).all()
        short = out[: max(end - 1, 3)].copy()
        if expected:
            assert _conversion.convert(conversion, src, 1, len(text), short, 3) == NEED_SPACE


@given(st.lists(texts("UTF8"), max_size=5))
def test_cells_keep_their_order(words: list[bytes]) -> None:
    conversion = make_conversion("UTF8", "SJIS")
    lengths = np.array([len(word) for word in words for _ in range(2)] + [0], np.int32)
    kinds = np.array([TEXT, BINARY] * len(words) + [NULL], np.uint8)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    text = np.frombuffer(b"".join(word + word for word in words), np.uint8).copy()
    none = np.zeros(0, np.int64)
    cells = converted_cells(Cells(none, none, kinds, starts, lengths, text), conversion)
    for number, word in enumerate(words):
        expected = plain_convert("UTF8", "SJIS", word)
        for cell, wanted in ((2 * number, expected), (2 * number + 1, word)):
            actual = cells.text[cells.start[cell] :][: cells.length[cell]].tobytes()
            if isinstance(wanted, int):
                assert (cells.kind[cell], actual) == (REFUSED, word[wanted : wanted + 8])
            else:
                assert (cells.kind[cell] in (TEXT, BINARY), actual) == (True, wanted)


@given(texts("UTF8"), st.integers(0, 40))
def test_printed_text_is_converted_in_its_place(text: bytes, room: int) -> None:
    conversion = make_conversion("UTF8", "SJIS")
    out = np.full(2 + len(text) + room, 0x55, np.uint8)
    out[2 : 2 + len(text)] = np.frombuffer(text, np.uint8)
    end = _conversion.convert_printed(conversion, out, 2, 2 + len(text))
    expected = plain_convert("UTF8", "SJIS", text)
    if end == NEED_SPACE:
        assert room < 2 * len(text) + 16
    elif isinstance(expected, int):
        at = _conversion.REFUSES - end
        assert out[at + 1 : at + 1 + out[at]].tobytes() == text[expected : expected + 8]
    else:
        assert out[2:end].tobytes() == expected


def test_what_is_not_converted() -> None:
    for database, client in (("UTF8", "UTF8"), ("LATIN1", "SQL_ASCII"), ("SQL_ASCII", "SQL_ASCII")):
        assert make_conversion(database, client) is NO_CONVERSION
        assert converted_text(database, client, b"\xff\x00", 0) == b"\xff\x00"
    with pytest.raises(KeyError):
        make_conversion("LATIN1", "SJIS")
    assert not is_converted("LATIN1", "SJIS")


def test_texts_need_room() -> None:
    """Three bytes for one: the guess does not do."""
    words = ["€" * 3000, "", "plain"]
    data = np.frombuffer("".join(words).encode("cp1252"), np.uint8).copy()
    offsets = np.array([0, 3000, 3000, 3005], np.int64)
    new, out = converted_texts(make_conversion("WIN1252", "UTF8"), offsets, data)
    assert [out[a:b].tobytes().decode() for a, b in pairwise(new)] == words
    with pytest.raises(ConversionFailure) as caught:
        converted_texts(
            make_conversion("WIN1252", "UTF8"), offsets, np.where(data == ord("a"), 0x81, data).astype(np.uint8)
        )
    assert (caught.value.place, caught.value.found) == (2, b"\x81in")


def test_a_message_that_cannot_be_sent_is_named() -> None:
    data = np.frombuffer("BEGINé".encode() + b"\0", np.uint8).copy()
    messages = Messages(np.array([8, 16, 24]), np.array([1, 1, 1]), np.array([0, 5, 7, 8]), data)
    with pytest.raises(
        DecodingError, match=r'byte sequence 0xc3 0xa9 in encoding "UTF8" has no equivalent in .* "KOI8R"'
    ) as caught:
        converted_messages(messages, "UTF8", "KOI8R")
    assert caught.value.lsn == 16
    with pytest.raises(DecodingError, match='invalid byte sequence for encoding "UTF8": 0x00') as caught:
        converted_messages(messages, "UTF8", "LATIN1")
    assert caught.value.lsn == 24


@pytest.mark.parametrize(
    ("database", "client", "text", "expected"),
    [
        ("UTF8", "LATIN1", b"\xe8\xa1\xa8xyz", 'character with byte sequence 0xe8 0xa1 0xa8 in encoding "UTF8" has no'),
        ("UTF8", "LATIN1", b"\xe8\xa1", 'invalid byte sequence for encoding "UTF8": 0xe8 0xa1'),
        ("SQL_ASCII", "UTF8", b"\xff\xfe", 'invalid byte sequence for encoding "UTF8": 0xff'),
        ("SQL_ASCII", "SJIS", b"\xfe\x40", 'invalid byte sequence for encoding "SJIS": 0xfe 0x40'),
        ("EUC_JP", "UTF8", b"\x8f\xa1\xa1", 'character with byte sequence 0x8f 0xa1 0xa1 in encoding "EUC_JP" has no'),
        ("WIN1252", "UTF8", b"\x81a", 'character with byte sequence 0x81 in encoding "WIN1252" has no'),
    ],
)
def test_errors_are_the_servers(database: str, client: str, text: bytes, expected: str) -> None:
    assert conversion_error(database, client, text).startswith(expected)


def test_names_of_encodings() -> None:
    spellings = ("utf-8", "Unicode", "UTF 8", "iso-8859-1", "latin1", "Shift_JIS", "windows-1252", "win", "mskanji")
    names = [find_encoding(name) for name in spellings]
    assert names == ["UTF8", "UTF8", "UTF8", "LATIN1", "LATIN1", "SJIS", "WIN1252", "WIN1251", "SJIS"]
    assert find_encoding("utf9") is None
