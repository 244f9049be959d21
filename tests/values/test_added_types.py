"""A type that another package prints: one is installed for the command, whose tasks find it by its entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.catalog.relation import TypeInfo
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from headwater.rows import extension_types as added_types
from headwater.rows._send_codes import SEND_BYTES
from headwater.rows._text_codes import CODE_ADDED
from headwater.rows.extension_types import chosen_values, print_added, replace_values
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import build_text_tables
from headwater.rows.type_forms import arrow_form

SETUP = (
    "CREATE TYPE odd",
    "CREATE FUNCTION odd_in(cstring) RETURNS odd LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
    "CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'brin_bloom_summary_out'",
    "CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, LIKE = text)",
    "CREATE TYPE pair AS (a int, b odd)",
)
WORK = (
    "CREATE TABLE t (id int PRIMARY KEY, a text, o odd, b text)",
    "INSERT INTO t VALUES (1, 'x', 'first', 'y'), (2, 'x', NULL, 'y'), (3, '', '', '')",
    "INSERT INTO t VALUES (4, 'x', repeat('long', 900)::odd, NULL)",
    "UPDATE t SET a = 'new' WHERE id = 4",
    "CREATE TABLE pairs (p pair)",
)
PRINTER = "import pyarrow.compute as pc\ndef shout(values):\n    return pc.utf8_upper(values.cast('string'))\n"
ALL_FORMS = """
import pyarrow as pa
from headwater.rows.extension_types import AddedType

def numbers(values):
    return pa.array([str(value.as_py()[0]) for value in values])

FORMS = AddedType(numbers, lambda values: values, pa.int64())
"""
WRONG = "def shout(values):\n    return values[:0]\n"


@dataclass(frozen=True)
class Copies:
    """A stopped server's files."""

    wal: Path
    backup: Path


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copies]:
    directory = tmp_path_factory.mktemp("added")
    with EmbeddedPostgres(find_programs(16), autovacuum=False) as server:
        with server.connect() as connection:
            for statement in SETUP:
                connection.execute(statement.encode())
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            for statement in WORK:
                connection.execute(statement.encode())
        server.stop()
        yield Copies(server.wal_directory, backup)


def package(directory: Path, source: str, point: str = "printers:shout") -> Path:
    """Install a package that prints the type."""
    (directory / "printers.py").write_text(source)
    metadata = directory / "printers-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: printers\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[headwater.types]\nbrin_bloom_summary_out = {point}\n")
    return directory


def decode(copies: Copies, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("headwater")), "decode", "--quiet", "--database", "postgres"]
    command += ["--wal", str(copies.wal), "--catalog", str(copies.backup), "-o", "include-xids=0"]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(directory)}, capture_output=True, text=True, check=False
    )


@pytest.mark.server
@pytest.mark.spark
def test_values_are_printed_by_the_package(copies: Copies, tmp_path: Path) -> None:
    done = decode(copies, package(tmp_path, PRINTER))
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.partition("id[integer]:")[2] for line in done.stdout.splitlines() if "id[integer]:" in line]
    assert rows == [
        "1 a[text]:'x' o[odd]:'FIRST' b[text]:'y'",
        "2 a[text]:'x' o[odd]:null b[text]:'y'",
        "3 a[text]:'' o[odd]:'' b[text]:''",
        f"4 a[text]:'x' o[odd]:'{'LONG' * 900}' b[text]:null",
        f"4 a[text]:'new' o[odd]:'{'LONG' * 900}' b[text]:null",
    ]


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.parametrize(
    ("source", "point", "expected"),
    [
        pytest.param(
            WRONG, "printers:shout", 'gave 0 texts for column "o" of table "public.t"', marks=pytest.mark.slow
        ),
        ("def shout(values):\n    raise ValueError('no')\n", "printers:shout", "failed for column"),
        pytest.param(
            *(PRINTER, "printers:whisper", 'could not load type "brin_bloom_summary_out" of headwater.types'),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["too few", "raises", "missing"],
)
def test_a_package_that_fails(copies: Copies, tmp_path: Path, source: str, point: str, expected: str) -> None:
    done = decode(copies, package(tmp_path, source, point))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert expected in done.stderr


@pytest.fixture
def printed_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TypeInfo]:
    """Give a type of which a package brings all forms."""
    monkeypatch.syspath_prepend(package(tmp_path, ALL_FORMS, "printers:FORMS"))
    for known in (added_types._points, added_types.added_type):
        known.cache_clear()
    yield TypeInfo(17_000, "n", "public", "n", "b", -1, "i", False, output="brin_bloom_summary_out", send="rgb:send")
    for known in (added_types._points, added_types.added_type):
        known.cache_clear()


def test_a_package_brings_binary_and_arrow_forms_too(printed_type: TypeInfo) -> None:
    texts, forms = (build_text_tables([printed_type], SessionSettings(), binary=binary) for binary in (False, True))
    assert (texts.code[0], forms.code[0]) == (CODE_ADDED, SEND_BYTES | CODE_ADDED)
    assert arrow_form(printed_type).spark == "BIGINT"
    stored = pa.array([b"\x07", b"\x2a"], pa.large_binary())
    output = printed_type.output
    assert print_added(output, stored, "here").to_pylist() == [b"7", b"42"]
    assert print_added(output, stored, "here", binary=True).to_pylist() == [b"\x07", b"\x2a"]


def test_pieces_are_replaced() -> None:
    text = np.frombuffer(b"abbccc", np.uint8).copy()
    lengths, chosen = np.array([1, 2, 0, 3]), np.array([False, True, True, False])
    starts = np.array([0, 1, 3, 3])
    assert chosen_values(text, starts[chosen], lengths[chosen]).to_pylist() == [b"bb", b""]
    replaced, begins = replace_values(text, lengths, chosen, pa.array([b"", b"dddd"], pa.large_binary()))
    assert (replaced.tobytes(), begins.tolist()) == (b"addddccc", [0, 1, 1, 5, 8])
