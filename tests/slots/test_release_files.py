"""Files that earlier releases left are gone on with: slots, kept states, exported catalogs, lakes.

``tests/slots/releases`` has an archive a release, which ``tools/write_release_files.py`` wrote with that release.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.slots.kept_state import lsn_of_name
from landing.mirrors import read_table
from slots.conftest import Command, done

pytestmark = [pytest.mark.server]

ARCHIVES = sorted(Path(__file__).with_name("releases").glob("*.tar.xz"))
PLUGINS = ("test_decoding", "pgoutput", "wal2json", "debezium")
LAKES = [f"{form}-{mode}" for form in ("parquet", "delta") for mode in ("changelog", "current", "history")]
TABLES = ("shop.events", "shop.measures", "shop.notes", "shop.orders", "shop.later")


@dataclass(frozen=True)
class Left:
    """The files of a release.

    Attributes:
        place: the folder with all of it.
        middle: the LSN that the release came to.
    """

    place: Path
    middle: str

    @property
    def wal(self) -> tuple[object, ...]:
        """The flag that names the WAL, of before and after the middle."""
        return "--wal", self.place / "wal"

    def after(self, plugin: str) -> bytes:
        """Return what the release said comes after the middle."""
        return (self.place / "after" / plugin).read_bytes()


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Left:
    """Unpack what a release left."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path / "left", filter="data")
    facts = json.loads((tmp_path / "left" / "facts.json").read_text())
    assert request.param.name == f"{facts['version']}.tar.xz"
    return Left(tmp_path / "left", facts["middle"])


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_slot_goes_on(command: Command, left: Left, plugin: str) -> None:
    """It says what the release would have said, although the files lie elsewhere now."""
    assert left.after(plugin)
    slot = "--slot", left.place / "slots" / plugin
    assert done(command, "decode", *left.wal, *slot, "--peek", "-q") == left.after(plugin)
    assert done(command, "decode", *left.wal, *slot, "-q") == left.after(plugin)
    assert done(command, "decode", *left.wal, *slot, "-q") == b""


def test_a_kept_state_is_begun_with(command: Command, left: Left) -> None:
    (state,) = (left.place / "states").glob("*.state")
    assert lsn_of_name(state.name) is not None
    flags = "--from-state", left.place / "states", "--start", left.middle, "-q"
    assert done(command, "decode", *left.wal, *flags) == left.after("test_decoding")


def test_an_exported_catalog_is_read(command: Command, left: Left) -> None:
    flags = "--catalog", left.place / "catalog", "--start", left.middle, "-q"
    assert done(command, "decode", *left.wal, *flags) == left.after("test_decoding")


@pytest.mark.parametrize("lake", LAKES)
def test_a_lake_goes_on(command: Command, left: Left, tmp_path: Path, lake: str) -> None:
    """It comes to hold the rows that a new one does."""
    form, mode = lake.split("-")
    flags = (
        *left.wal,
        "--catalog",
        left.place / "catalog",
        "--format",
        form,
        "--mode",
        mode,
        "--snapshot",
        "never",
        "-q",
    )
    old, new = left.place / "lakes" / lake, tmp_path / "new"
    before = {table: rows(old, form, table) for table in TABLES if (old / table).exists()}
    done(command, "land", *flags, "--to", old)
    done(command, "land", *flags, "--to", new)
    assert {table: rows(old, form, table) for table in TABLES} == {table: rows(new, form, table) for table in TABLES}
    assert before != {table: rows(old, form, table) for table in TABLES}


def rows(lake: Path, form: str, table: str) -> list[str]:
    """Return the rows of a table in an order that does not depend on its files, one text a row."""
    content: pa.Table = read_table(lake / table, form)
    return sorted(repr(sorted(row.items())) for row in content.to_pylist())
