"""Things in a window that decoding passes over or stops at: extensions' records, a database that moves, origins."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from bad_input.clusters import SEGMENT, Cluster
from bad_input.command import CommandHere
from bad_input.damage import PAGE, overwrite, segments
from bad_input.servers import copy_wal, make_slot, peek, run, small_server
from control_files import read_control_file
from headwater.pipeline.requests.open_request import open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.windows import PlanWindows
from headwater.plugins.api import PluginContext
from headwater.plugins.test_decoding.plugin import TestDecoding
from headwater.reorder.slices.cutting import cut_slices
from headwater.rmgr.registry import BTREE
from headwater.wal.checksum import crc32c
from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory

pytestmark = [pytest.mark.server]


# -- records of custom resource managers


def test_records_of_custom_resource_managers(headwater: CommandHere, cluster: Cluster, wal: Path, whole: bytes) -> None:
    """As of an extension whose manager has no rm_decode: the server too passes them over, but for their xid."""
    counts = _change_managers(wal, cluster.backup, (128, 255, 255))
    run = headwater("--wal", wal, "--catalog", cluster.backup, "--database", "postgres")
    assert (run.status, run.left) == (0, ()), run.stderr
    assert run.stdout == whole
    for line, rmid in zip(run.stderr.splitlines(), (128, 255), strict=True):
        expected = f"headwater: warning: {counts[rmid]} records of custom resource manager {rmid} are passed over; "
        assert line.startswith(expected)


def _change_managers(wal: Path, catalog: Path, rmids: Sequence[int]) -> dict[int, int]:
    """Give records of B-trees that lie on one page each to other managers, in turn; how many each got."""
    directory = WalDirectory.scan(wal)
    frames = read_frames(directory, read_control_file(catalog).redo_lsn)
    counts = dict.fromkeys(rmids, 0)
    taken = 0
    for index, (lsn, length) in enumerate(
        zip(frames.lsns.tolist(), frames.lengths_of(slice(None)).tolist(), strict=True)
    ):
        record = bytearray(frames.record(index))
        if lsn // PAGE != (lsn + length - 1) // PAGE or record[17] != BTREE or taken == 30:
            continue
        record[17] = rmids[taken % len(rmids)]
        record[20:24] = struct.pack("<I", crc32c(bytes(record[24:]) + bytes(record[:20])))
        overwrite(next(p for p in segments(wal) if int(p.name[16:], 16) == lsn // SEGMENT), lsn % SEGMENT, record)
        counts[record[17]] += 1
        taken += 1
    return counts


# -- a database that moves to another tablespace


def test_database_that_moves(headwater: CommandHere, tmp_path: Path) -> None:
    """A move that is rolled back is none."""
    with small_server(16, allow_in_place_tablespaces="on") as server:
        run(server, "CREATE DATABASE d", "CREATE TABLESPACE place LOCATION ''")
        run(server, "CREATE TABLE t (id int PRIMARY KEY)", database="d")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        place = "(SELECT oid FROM pg_tablespace WHERE spcname = 'place')"
        run(server, "BEGIN", f"UPDATE pg_database SET dattablespace = {place} WHERE datname = 'd'", "ROLLBACK")
        run(server, "INSERT INTO t VALUES (1)", database="d")
        run(server, "ALTER DATABASE d SET TABLESPACE place")
        run(server, "INSERT INTO t VALUES (2)", database="d")
        server.stop()
        wal = copy_wal(server, tmp_path / "wal")
    window = ["--wal", wal, "--catalog", backup, "--database", "d", "-o", "include-xids=0"]
    assert headwater(*window, "-o", "skip-empty-xacts=1").check_passed() == b"".join(
        b"BEGIN\ntable public.t: INSERT: id[integer]:%d\nCOMMIT\n" % number for number in (1, 2)
    )


# -- origins


class _WithoutOne(TestDecoding):
    """Leaves out one replication origin."""

    left_out = 2

    def filter_origin(self, origin_id: int) -> bool:
        return origin_id == self.left_out


def test_plugin_that_leaves_one_origin_out(tmp_path: Path) -> None:
    """It is asked for every change by the change's own origin, for a transaction by its commit's."""
    with small_server(16) as server:
        run(server, "CREATE TABLE t (id int PRIMARY KEY, a text)")
        run(server, "SELECT pg_replication_origin_create('first'), pg_replication_origin_create('second')")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        make_slot(server, "s")
        run(server, *_mixed_origins())
        expected = peek(server, "s").decode()
        server.stop()
        wal = copy_wal(server, tmp_path / "wal")
    for left_out in (0, 1, 2):
        plugin_class = type("WithoutOne", (_WithoutOne,), {"left_out": left_out})
        lines = _decode(DecodeRequest(str(wal), str(backup), "postgres"), plugin_class)
        assert lines == _without(expected, left_out), left_out


def _mixed_origins() -> list[str]:
    """Make each row say in its text which origin it came from, and the transaction's last one its commit's origin."""
    statements = []
    for number, origins in enumerate(((0,), (1,), (2,), (0, 1, 2, 0), (1, 2, 1), (2, 0, 2), (2, 1), (1, 0, 2, 1))):
        statements.append("BEGIN")
        for place, origin in enumerate(origins):
            if place and origins[place - 1]:
                statements.append("SELECT pg_replication_origin_session_reset()")
            if origin:
                name = ("first", "second")[origin - 1]
                statements.append(f"SELECT pg_replication_origin_session_setup('{name}')")
            statements.append(f"INSERT INTO t VALUES ({number * 10 + place}, 'from {origin}')")
        statements.append("COMMIT")
        if origins[-1]:
            statements.append("SELECT pg_replication_origin_session_reset()")
    return statements


def _without(lines: str, origin: int) -> list[str]:
    """Return the messages but for rows from an origin, and transactions whose last row is."""
    rest: list[str] = []
    unit: list[str] = []
    for line in (row.split("\t")[2] for row in lines.splitlines()):
        unit.append(line)
        if line.startswith("COMMIT"):
            if f"from {origin}" not in unit[-2]:
                rest += [row for row in unit if f"from {origin}" not in row]
            unit = []
    return rest


def _decode(request: DecodeRequest, plugin_class: type[TestDecoding]) -> list[str]:
    opened = open_request(request, make_plugin=lambda store: plugin_class((), PluginContext(major=store.major)))
    scope = Scope(opened.directory.segment_size)
    (window,) = PlanWindows(opened, scope, lambda tasks: index_in_threads(tasks, 1), 1)
    decoder = SliceDecoder(opened.directory, opened.plugin, opened.session)
    lines: list[str] = []
    for piece in cut_slices(window.assembly.plan, 1 << 20):
        made = decoder.messages(piece)
        data, ends = made.data.tobytes(), made.offsets.tolist()
        lines += [data[a:b].decode() for a, b in pairwise(ends)]
    return [line for line in lines if line]
