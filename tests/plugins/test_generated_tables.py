"""The tables that tools make from servers are those that are in the repository, for each major version."""

from __future__ import annotations

import importlib
import random
import sys
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import psycopg
import pytest

from headwater.errors import DecodingError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg import data_files
from headwater.pg.conversions import as_bytes, characters, conversion, is_converted
from headwater.pg.data_files import read_rows
from headwater.pg.encodings import (
    CHARACTERS,
    CLIENT_ENCODINGS,
    ENCODINGS,
    SINGLE_BYTES,
    byte_ranges,
    decode_name,
    encode_name,
    find_encoding,
)
from headwater.pg.identifiers import keywords
from headwater.pg.version import VERSIONS
from headwater.rows.conversion import converted_text

pytestmark = pytest.mark.server
TOOLS = Path(__file__).parents[2] / "tools"
FOLDER = Path(data_files.__file__).parent


def tool(name: str) -> ModuleType:
    """Import a program of ``tools/`` as a module."""
    with patch.object(sys, "path", [str(TOOLS), *sys.path]):
        return importlib.import_module(name)


def test_columns_of_catalogs(server: EmbeddedPostgres) -> None:
    programs = server.programs
    generate = tool("generate_catalog_columns")
    major, text = generate.read_catalogs(programs.root / "share" / "postgresql" / "postgres.bki")
    assert major == programs.major
    assert sorted(generate.lines(text)) == sorted(map(" ".join, read_rows("catalog_columns.txt", major)))


def test_keywords(server: EmbeddedPostgres) -> None:
    dsn = " ".join(f"{name}={word}" for name, word in server.connection_info().items())
    major, words = tool("generate_keywords").keywords(dsn)
    assert (major, frozenset(words)) == (server.programs.major, keywords(major))


def test_settings(server: EmbeddedPostgres) -> None:
    """A minor release may have more."""
    dsn = " ".join(f"{name}={word}" for name, word in server.connection_info().items())
    major, lines = tool("generate_settings").settings(dsn)
    assert major == server.programs.major
    assert set(map(" ".join, read_rows("settings.txt", major))) <= set(lines)


def test_conversions(server: EmbeddedPostgres) -> None:
    """All of them are known; and of each what becomes of a sample of characters, also of those that become nothing."""
    with server.connect() as connection:
        generate, r = tool("generate_conversions"), random.Random(1)
        connection.execute(generate.FUNCTION)
        pairs = generate.pairs(connection)
        assert set(pairs) == {pair for pair in product(ENCODINGS, CLIENT_ENCODINGS) if has(server, *pair)}
        for source, target in pairs:
            known = dict(characters(source, target))
            sample = r.sample(sorted(known), min(len(known), 60)) + others(source, r)
            made = generate.ask(connection, source, target, sample)
            converted = {
                as_bytes(key): as_bytes(value) for key, value in zip(*(array.tolist() for array in made), strict=True)
            }
            assert converted == {character: known[character] for character in sample if character in known}, (
                source,
                target,
            )


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_conversions(server: EmbeddedPostgres) -> None:
    """All characters; in UTF8 those of the first two planes, and of the others a sample."""
    with server.connect() as connection:
        generate = tool("generate_conversions")
        connection.execute(generate.FUNCTION)
        for source, target in generate.pairs(connection):
            keys, values = conversion(source, target)
            asked = [*generate.candidates(source, target), *(as_bytes(key) for key in keys.tolist() if key >= 1 << 32)]
            answer = generate.ask(connection, source, target, asked)
            assert np.array_equal(answer[0], keys), (source, target)
            assert np.array_equal(answer[1], values), (source, target)


def has(server: EmbeddedPostgres, source: str, target: str) -> bool:
    """Tell whether we know a conversion that this server may have."""
    may_have = VERSIONS[server.programs.major].has_mule_internal or "MULE_INTERNAL" not in (source, target)
    return may_have and is_converted(source, target)


def others(encoding: str, r: random.Random) -> list[bytes]:
    """Make some valid characters of an encoding, of each kind."""
    kinds = [kind.split() for kind in CHARACTERS.get(encoding, SINGLE_BYTES).split("; ")]
    return [bytes(r.choice(byte_ranges(part)) for part in kind) for kind in kinds for _ in range(20)]


def test_what_characters_are(server: EmbeddedPostgres) -> None:
    """Names of encodings, valid characters, and what is said of others."""
    r = random.Random(2)
    with server.connect() as connection:
        rows = connection.execute("SELECT pg_encoding_to_char(n) FROM generate_series(0, 41) n").fetchall()
        is_there = VERSIONS[server.programs.major].has_mule_internal
        known = [name if is_there or name != "MULE_INTERNAL" else "" for name in CLIENT_ENCODINGS]
        assert [name for (name,) in rows] == known
        for name in ("Shift-JIS", "win", "WINDOWS-1251", "iso 8859-15", "latin10", "unicode", "tcvn", "koi8", "utf9"):
            row = connection.execute("SELECT pg_encoding_to_char(pg_char_to_encoding(%s::name))", [name]).fetchone()
            assert row == (find_encoding(name) or "",)
        for name in filter(None, known[1:]):
            for text in [bytes(r.choice(BYTES) for _ in range(r.randint(1, 4))) for _ in range(60)] + others(name, r):
                assert first_invalid(connection, name, text) == said_of(name, text), (name, text)


BYTES = [*range(0x80, 0x100), *range(0x80, 0x100), 0x20, 0x30, 0x39, 0x40, 0x7F, 0xFF, 0x8D, 0x8E, 0x8F, 0x81, 0xA1]


def first_invalid(connection: psycopg.Connection[Any], encoding: str, text: bytes) -> str:
    """Return the server's error for a text that it is asked to read."""
    try:
        connection.execute("SELECT length(%s, %s)", [text, encoding])
    except psycopg.Error as error:
        return error.diag.message_primary or ""
    return ""


def said_of(encoding: str, text: bytes) -> str:
    """Return our error for a text of a database that does not know its encoding."""
    try:
        converted_text("SQL_ASCII", encoding, text, 0)
    except DecodingError as error:
        return error.message
    return ""


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_names_come_back(encoding: str) -> None:
    """As the bytes they were, valid or not."""
    r = random.Random(3)
    names = [b"".join(r.choices([b"a", *others(encoding, r), bytes([r.randrange(1, 256)])], k=6)) for _ in range(300)]
    known = [character for character, _ in characters(encoding, "UTF8")] if is_converted(encoding, "UTF8") else []
    for name in names + known:
        assert encode_name(decode_name(name, encoding), encoding) == name


@pytest.mark.parametrize("name", ["catalog_columns.txt", "keywords.txt", "settings.txt"])
def test_every_major_has_its_tables(name: str) -> None:
    header = (FOLDER / name).read_text().split("\n", 4)[:4]
    assert any(f"Generated from PostgreSQL {', '.join(map(str, VERSIONS))} by" in line for line in header)
