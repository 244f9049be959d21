"""A server that is restarted with other values of wal_level: what can be decoded before, between and behind."""

from __future__ import annotations

import random
import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest

from bad_input.servers import copy_wal, make_slot, peek, run, small_server, value
from headwater.catalog.store.bootstrap import open_catalog
from headwater.cli.shared_flags import SourceFlags
from headwater.cli.slot import AdvanceFlags, CreateFlags, advance_command, create_command
from headwater.errors import HeadwaterWarning, WalError, held_warnings
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_errors import LocalServerError
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.slot_moves import begin, state_at
from headwater.slots.slot_directory import read_slot
from oracle.calls import record_ends
from oracle.folding import Piece, differing, folded, one_window

pytestmark = [pytest.mark.server]

MAJORS = [pytest.param(major, marks=pytest.mark.slow) for major in (14, 15, 17)] + [16, 18]
CUTS = 12


@dataclass(frozen=True)
class Levels:
    """The things that a server left whose wal_level was logical, then lower for a time.

    Attributes:
        catalog: taken at the beginning, while it was down.
        wal: ``pg_wal`` at the end.
        before: what a slot says that was dropped before the level fell; raised: and one that was made afterwards.
        fell_after, rose_after: LSNs at most a restart before the level fell, and rose.
        ends: LSNs behind records.
    """

    catalog: Path
    wal: Path
    before: bytes
    raised: bytes
    fell_after: int
    rose_after: int
    ends: tuple[int, ...]

    @property
    def request(self) -> DecodeRequest:
        return DecodeRequest(str(self.wal), str(self.catalog), "postgres")


def _restart(server: EmbeddedPostgres, level: str, **settings: str) -> None:
    server.stop()
    with (server.data_directory / "postgresql.conf").open("a") as configuration:
        for name, value in {"wal_level": level, **settings}.items():
            configuration.write(f"{name} = {value}\n")
    server.start()


def _position(server: EmbeddedPostgres) -> int:
    return Lsn.parse(value(server, "SELECT pg_current_wal_insert_lsn()::text"))


def _levels(directory: Path, major: int) -> Levels:
    with small_server(major) as server:
        run(
            server,
            "CREATE TABLE t (id int PRIMARY KEY, a text)",
            "CREATE TABLE u (id int)",
            "CREATE PUBLICATION p FOR ALL TABLES",
        )
        server.stop()
        catalog = server.copy_data_directory(directory / "catalog")
        server.start()
        make_slot(server, "before")
        run(server, "INSERT INTO t VALUES (1, 'whole')")
        run(server, "BEGIN", "INSERT INTO u VALUES (3)", "PREPARE TRANSACTION 'before'")
        run(server, "UPDATE t SET a = 'whole, too' WHERE id = 1")
        before = peek(server, "before")
        run(server, "SELECT pg_drop_replication_slot('before')")
        fell_after = _position(server)
        _restart(server, "replica")
        run(server, "INSERT INTO t VALUES (4, 'in the gap')", "ALTER TABLE t ADD COLUMN b int DEFAULT 7")
        run(server, "BEGIN", "INSERT INTO u VALUES (5)", "PREPARE TRANSACTION 'in'")
        run(server, "SELECT pg_logical_emit_message(false, 'in', 'the gap')", "DELETE FROM t WHERE id = 4")
        rose_after = _position(server)
        _restart(server, "logical")
        run(server, "INSERT INTO t VALUES (6, 'behind the gap')")
        run(server, "COMMIT PREPARED 'before'", "COMMIT PREPARED 'in'")
        make_slot(server, "raised")
        run(server, "UPDATE t SET b = 8 WHERE id = 1", "INSERT INTO t VALUES (7, 'whole')")
        raised = peek(server, "raised")
        server.stop()
        wal = copy_wal(server, directory / "wal")
    ends = tuple(record_ends(wal).tolist())
    return Levels(catalog, wal, before, raised, fell_after, rose_after, ends)


@pytest.fixture(scope="module", params=MAJORS, ids=lambda major: f"pg{major}")
def levels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Levels:
    return _levels(tmp_path_factory.mktemp("levels"), request.param)


def _lines(*pieces: Piece) -> bytes:
    rows = [row for piece in pieces for row in piece.messages.to_pylist()]
    return "".join(f"{Lsn(row['lsn'])}\t{row['xid']}\t{row['data']}\n" for row in rows).encode()


def _warned(request: DecodeRequest) -> tuple[bytes, list[str]]:
    with held_warnings() as warned:
        piece = one_window(request, None)
    return _lines(piece), [str(warning) for warning in warned]


def test_a_gap_is_an_error_that_names_its_range(levels: Levels) -> None:
    with pytest.raises(WalError, match="wal_level fell to replica, expected logical") as raised:
        one_window(levels.request, None)
    fell = raised.value.lsn
    assert fell is not None
    rose = Lsn.parse(raised.value.message.split("up to ")[1].split()[0])
    assert levels.fell_after <= fell < levels.rose_after <= rose < levels.ends[-1]
    assert "--on-level-gap skip" in str(raised.value)
    assert _warned(replace(levels.request, end=fell)) == (levels.before, [])


def test_a_gap_is_left_out(levels: Levels) -> None:
    """Transactions that were prepared before the raise are, too: of one, not all is in the WAL."""
    lines, warned = _warned(replace(levels.request, on_level_gap="skip"))
    assert lines.startswith(levels.before)
    assert lines.endswith(levels.raised)
    middle = lines[len(levels.before) : -len(levels.raised)]
    assert [row.split(b"\t")[2][:5] for row in middle.splitlines()] == [b"BEGIN", b"table", b"COMMI"]
    assert b"'behind the gap' b[integer]:7" in middle
    gap, prepared = warned
    assert gap.startswith("3 transactions that committed from")
    assert "left out; wal_level was replica from" in gap
    assert "where decoding begins again" in gap
    assert prepared.startswith("2 transactions that committed from")
    assert "are left out: prepared before" in prepared


def test_an_end_in_the_gap(levels: Levels) -> None:
    request = replace(levels.request, end=levels.rose_after, on_level_gap="skip")
    lines, (warned,) = _warned(request)
    assert lines == levels.before
    assert f"to the end of what was read, {Lsn(levels.rose_after)}" in warned
    with pytest.raises(WalError, match="and what follows cannot be decoded"):
        one_window(replace(levels.request, end=levels.rose_after), None)


def test_a_start_behind_the_gap(levels: Levels) -> None:
    """A window that asks for nothing of before does not miss anything."""
    start = Lsn.parse(levels.raised.split(b"\t")[0].decode())
    with held_warnings():
        piece = one_window(replace(levels.request, start=start - 8), None)
    assert _lines(piece) == levels.raised


def test_windows_are_cut_anywhere(levels: Levels) -> None:
    """The output is the same, and so are the states."""
    request = replace(levels.request, on_level_gap="skip")
    start = open_catalog(str(levels.catalog), "postgres").start_lsn
    inside = [end for end in levels.ends if end > start]
    with held_warnings():
        whole = _lines(one_window(request, None))
        ends = [*sorted(random.Random(1).sample(inside[:-1], CUTS)), inside[-1]]
        pieces = list(folded(request, ends))
        assert _lines(*pieces) == whole
        for end, piece in list(zip(ends, pieces, strict=True))[:-1]:
            at_once = one_window(replace(request, end=end), None, goes_on=True).state
            assert at_once == piece.state, differing(at_once, piece.state)


def test_a_state_in_the_gap_goes_on_as_an_error(levels: Levels) -> None:
    with held_warnings():
        state = state_at(levels.request, None, levels.rose_after)
    assert state.control.gap is not None
    with pytest.raises(WalError, match="wal_level fell to replica"):
        one_window(levels.request, state)


def test_a_slot_advances_over_the_gap(levels: Levels, tmp_path: Path) -> None:
    """To an LSN inside, too: there it stands until a call says that the gap may be left out."""
    states = {}
    source = SourceFlags(wal=[str(levels.wal)], catalog=str(levels.catalog), database="postgres")
    for name, lsn in (("behind", levels.ends[-1]), ("inside", levels.rose_after)):
        with held_warnings():
            create_command.run(CreateFlags(path=tmp_path / name, source=source))
        with held_warnings() as warned:
            advance_command.run(AdvanceFlags(tmp_path / name, str(Lsn(lsn))))
        assert [str(warning)[:27] for warning in warned] == ["wal_level was replica from "] * (name == "behind")
        slot = read_slot(tmp_path / name)
        assert slot.confirmed_lsn == lsn
        states[name] = slot.state
    assert _lines(one_window(levels.request, states["behind"])) == b""
    with pytest.raises(WalError, match="wal_level fell to replica"):
        one_window(levels.request, states["inside"])
    with held_warnings():
        piece = one_window(replace(levels.request, on_level_gap="skip"), states["inside"])
    assert _lines(piece).endswith(levels.raised)


def test_a_slot_begins_before_the_gap(levels: Levels) -> None:
    with held_warnings():
        assert begin(levels.request).lsn < levels.fell_after


def test_relations_are_announced_again_behind_the_gap(levels: Levels) -> None:
    request = replace(
        levels.request,
        plugin="pgoutput",
        options=(("proto_version", "1"), ("publication_names", "p")),
        on_level_gap="skip",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeadwaterWarning)
        rows = one_window(request, None).messages.to_pylist()
    relations = [row["data"] for row in rows if row["data"][:1] == b"R"]
    assert [b"b\0" in data[-20:] for data in relations] == [False, True]


def test_all_levels_but_minimal_with_marks(levels: Levels) -> None:
    """Transactions are decoded that are prepared at one level and committed at another, too."""
    lines, (warned,) = _warned(replace(levels.request, from_replica_level=True))
    rows = [line.split("\t")[2] for line in lines.decode().splitlines()]
    before = [row.split("\t")[2] for row in levels.before.decode().splitlines() if "table" in row]
    inserted = ["id[integer]:3 (complete)", "a[text]:'in the gap' (complete)", "id[integer]:5 (complete)"]
    assert all(any(row.endswith(end) for row in rows) for end in inserted)
    assert [row for row in rows if "table" in row][: len(before)] == [f"{row} (complete)" for row in before]
    assert any("DELETE: (no-tuple-data)" in row for row in rows) != any("DELETE: id" in row for row in rows)
    assert "message: transactional: 0 prefix: in, sz: 7 content:the gap" in rows
    assert "was written with wal_level = replica" in warned


@pytest.mark.parametrize("major", [pytest.param(major, marks=pytest.mark.slow) for major in (14, 15, 16, 17)] + [18])
def test_the_server_has_no_slot_below_logical(major: int) -> None:
    """So what a gap means never shows there: with a slot it does not start, without one it makes none."""
    with small_server(major) as server:
        make_slot(server, "s")
        with pytest.raises(LocalServerError, match="did not start"):
            _restart(server, "replica")
        log = next(server.data_directory.parent.glob("*.log")).read_text()
        assert re.search(r'logical replication slot "s" exists, but "?wal_level"? < "?logical', log)
    with (
        small_server(major, wal_level="replica") as server,
        pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=r'wal_level"? >= "?logical'),
    ):
        make_slot(server, "s")


def test_minimal_is_the_end(tmp_path: Path) -> None:
    with small_server(16) as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        server.stop()
        catalog = server.copy_data_directory(tmp_path / "catalog")
        server.start()
        run(server, "INSERT INTO t VALUES (1, 'whole')")
        fell_after = _position(server)
        _restart(server, "minimal", max_wal_senders="0")
        run(server, "INSERT INTO t VALUES (2, 'minimal')")
        _restart(server, "logical")
        run(server, "INSERT INTO t VALUES (3, 'behind')")
        server.stop()
        request = DecodeRequest(str(server.wal_directory), str(catalog), "postgres", on_level_gap="skip")
        with pytest.raises(WalError, match="WAL was generated with wal_level = minimal") as raised:
            one_window(request, None)
        assert raised.value.lsn is not None
        assert fell_after <= raised.value.lsn
        assert "take a new base backup" in str(raised.value)
        lines, warned = _warned(replace(request, end=raised.value.lsn))
    assert b"'whole'" in lines
    assert warned == []
