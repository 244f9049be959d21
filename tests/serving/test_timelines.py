"""A promotion while the service runs: it follows the history files, and whoever was sent what is off it ends.

The promoted standby is the oracle of what follows, its primary of what came before.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import pq
from psycopg.pq.abc import PGconn

from bad_input.servers import conninfo_of, copy_wal, make_slot, now, peek, run, small_server, value
from bad_input.standbys import base_backup, catch_up, standby_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.protocol.replication_messages import status_update
from serving.service import Serving, Streaming, client, content, make_slot_by_client, recvlogical, wait_until

pytestmark = pytest.mark.server

OFF_HISTORY = "is not in this server's history"


@dataclass
class Fork:
    """A primary that goes on by itself, and its standby that is promoted before; a service over both.

    Attributes:
        primary, standby: they; new: the place that the standby's WAL comes to.
        serving: the service.
    """

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres
    new: Path
    serving: Serving

    def promote(self) -> bytes:
        """Let the standby be promoted, and change rows; return what its slot says of that."""
        run(self.standby, "SELECT pg_promote()")
        make_slot(self.standby, "after")
        run(self.standby, *(f"INSERT INTO t VALUES ({number}, 'new')" for number in range(10, 15)))
        return texts(peek(self.standby, "after"))

    def hand_over(self, directory: Path) -> None:
        """Stop the standby, and archive its WAL: the history file first, as a server does."""
        self.standby.stop()
        files = sorted(copy_wal(self.standby, directory).iterdir(), key=lambda file: (file.suffix != ".history", file))
        for file in files:
            if file.is_file() and file.name.startswith("00000002"):
                shutil.move(file, self.new / file.name)


def texts(lines: bytes) -> bytes:
    """Return what test_decoding says, without LSNs and ids."""
    return b"".join(line.split(b"\t", 2)[2] for line in lines.splitlines(keepends=True))


@contextmanager
def fork_of(directory: Path, major: int, has_upstream: bool = False) -> Iterator[Fork]:
    """Run a primary, a standby that has all it has and gets no more, and a service over the primary's WAL."""
    with small_server(major) as primary:
        run(primary, "CREATE TABLE t (id int PRIMARY KEY, a text)", "SELECT pg_switch_wal()")
        backup = base_backup(primary, directory / "backup")
        with standby_of(primary, backup) as standby:
            new = directory / "new"
            new.mkdir()
            flags = ("--wal", str(new), "--verbose", *(("--upstream", conninfo_of(primary)) if has_upstream else ()))
            with Serving(primary.wal_directory, backup, directory / "slots", *flags) as serving:
                yield Fork(primary, standby, new, serving)


def leave_behind(fork: Fork) -> None:
    """Let the standby have what the primary has now, and no more."""
    catch_up(fork.standby, value(fork.primary, "SELECT pg_current_wal_flush_lsn()"))
    run(fork.standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
    wait_until(lambda: value(fork.standby, "SELECT count(*) FROM pg_stat_wal_receiver") == "0")


def identified(serving: Serving) -> tuple[int, int]:
    """Return the timeline and the LSN of IDENTIFY_SYSTEM."""
    connection = pq.PGconn.connect(b"host=127.0.0.1 user=postgres replication=true port=%d" % serving.port)
    answer = connection.exec_(b"IDENTIFY_SYSTEM")
    timeline, lsn = answer.get_value(0, 1), answer.get_value(0, 2)
    connection.finish()
    assert timeline is not None
    assert lsn is not None
    return int(timeline), int(Lsn.parse(lsn.decode()))


def is_confirmed(serving: Serving, lsn: str) -> bool:
    """Tell whether the client of the only stream has reported that it has all up to an LSN."""
    with psycopg.connect(f"host=127.0.0.1 user=postgres dbname=postgres port={serving.port}") as connection:
        rows = connection.execute("SELECT flush_lsn FROM pg_stat_replication").fetchall()
    return [row[0] is not None and Lsn.parse(row[0]) >= Lsn.parse(lsn) for row in rows] == [True]


def rows_of(serving: Serving) -> list[tuple[object, ...]]:
    """Return the rows of the table, as the service copies them."""
    with psycopg.connect(f"host=127.0.0.1 user=postgres dbname=postgres port={serving.port}") as connection:
        copied = connection.cursor().copy("COPY public.t (id, a) TO STDOUT")
        with copied as copy:
            copy.set_types(["int4", "text"])
            return sorted(copy.rows())


def tables_of(serving: Serving) -> list[str]:
    """Return the names of tables, which the catalogs' server tells."""
    with psycopg.connect(f"host=127.0.0.1 user=postgres dbname=postgres port={serving.port}") as connection:
        query = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1"
        return [row[0] for row in connection.execute(query)]


def stream_of(serving: Serving, major: int, slot: str, file: Path, end: str) -> bytes:
    """Stream up to an LSN; return what the plugin says, from the first row on."""
    flags = ("--slot", slot, "--start", "--endpos", end, "-f", str(file), "-o", "include-xids=0")
    streamed = recvlogical(serving.environment(), major, *flags)
    assert streamed.returncode == 0, streamed.stderr
    return file.read_bytes()


def without_xids(text: bytes) -> bytes:
    return b"".join(line.split()[0] + b"\n" if line[:1] in b"BC" else line for line in text.splitlines(keepends=True))


@pytest.mark.parametrize("major", [16, pytest.param(18, marks=pytest.mark.slow)])
def test_a_switch_below_what_was_read_is_followed(tmp_path: Path, major: int) -> None:
    """Who was sent what is off the history ends with the server's error; all else is as of the new timeline."""
    with fork_of(tmp_path, major) as fork:
        serving, primary = fork.serving, fork.primary
        for slot in ("ahead", "behind"):
            make_slot_by_client(serving.environment(), major, slot, "test_decoding")
        make_slot(primary, "before")
        run(primary, *(f"INSERT INTO t VALUES ({number}, 'common')" for number in range(10)))
        common = texts(peek(primary, "before"))
        leave_behind(fork)
        flags = ("--slot", "ahead", "-f", str(tmp_path / "a"), "--no-loop", "--status-interval", "1")
        ahead = Streaming(serving.environment(), major, *flags, "--fsync-interval", "1")
        run(primary, "INSERT INTO t SELECT g, repeat('old', 100) FROM generate_series(100, 9999) g")
        run(primary, "CREATE TABLE gone ()")
        assert tables_of(serving) == ["gone", "t"]
        last = now(primary)
        wait_until(lambda: is_confirmed(serving, last))
        assert b"id[integer]:9999" in content(tmp_path / "a")
        assert len(rows_of(serving)) == 9910
        assert identified(serving) == (1, int(Lsn.parse(last)))
        expected = common + fork.promote()
        end = int(Lsn.parse(value(fork.standby, "SELECT pg_current_wal_flush_lsn()")))
        assert end < int(Lsn.parse(last))
        fork.hand_over(tmp_path / "handed")
        assert ahead.wait() == 1
        assert OFF_HISTORY in ahead.errors
        wait_until(lambda: identified(serving)[0] == 2)
        assert end <= identified(serving)[1] < int(Lsn.parse(last))
        assert tables_of(serving) == ["t"]
        assert rows_of(serving) == [*((n, "common") for n in range(10)), *((n, "new") for n in range(10, 15))]
        streamed = stream_of(serving, major, "behind", tmp_path / "b", str(Lsn(end)))
        assert streamed == without_xids(expected)
        make_slot_by_client(serving.environment(), major, "later", "test_decoding")
        again = recvlogical(serving.environment(), major, *("--slot", "ahead", "--start", "-f", "-", "--no-loop"))
        assert (again.returncode, OFF_HISTORY in again.stderr) == (1, True)
        assert serving.stop() == 0


def stream_into(connection: PGconn, is_over: Callable[[int, bytes], bool]) -> None:
    """Take messages, by LSN and text, until one ends it."""
    while True:
        size, data = connection.get_copy_data(0)
        assert size > 0, connection.error_message
        if bytes(data[:1]) == b"w" and is_over(int.from_bytes(data[1:9]), bytes(data[25:])):
            return


def test_what_was_confirmed_amid_transactions_is_off_the_history(tmp_path: Path) -> None:
    """The slot's state is of before the switch, what its client has confirmed is not."""
    with fork_of(tmp_path, 16) as fork:
        make_slot_by_client(fork.serving.environment(), 16, "s", "test_decoding")
        run(fork.primary, "INSERT INTO t VALUES (1, 'common')")
        leave_behind(fork)
        run(fork.primary, *(f"INSERT INTO t VALUES ({number}, 'old')" for number in range(20, 24)))
        place = f"host=127.0.0.1 user=postgres dbname=postgres replication=database port={fork.serving.port}"
        start = b"START_REPLICATION SLOT s LOGICAL 0/0"
        connection = pq.PGconn.connect(place.encode())
        assert connection.exec_(start).status == pq.ExecStatus.COPY_BOTH
        commits = list[int]()

        def is_second_commit(lsn: int, text: bytes) -> bool:
            commits.extend([lsn] if text.startswith(b"COMMIT") else [])
            return len(commits) == 2

        stream_into(connection, is_second_commit)
        connection.put_copy_data(status_update(commits[1], commits[1], commits[1]))
        connection.flush()
        wait_until(lambda: is_confirmed(fork.serving, str(Lsn(commits[1]))))
        fork.promote()
        fork.hand_over(tmp_path / "handed")
        while connection.get_copy_data(0)[0] > 0:
            pass
        ended = connection.get_result()
        assert ended is not None
        assert OFF_HISTORY.encode() in ended.error_message
        connection.finish()
        again = pq.PGconn.connect(place.encode()).exec_(start)
        assert OFF_HISTORY.encode() in again.error_message
        assert fork.serving.stop() == 0


def test_rows_of_a_primary_on_the_old_timeline_are_refused(tmp_path: Path) -> None:
    with fork_of(tmp_path, 16, has_upstream=True) as fork:
        leave_behind(fork)
        fork.promote()
        run(fork.standby, "INSERT INTO t SELECT g, repeat('new', 100) FROM generate_series(100, 9999) g")
        end = int(Lsn.parse(value(fork.standby, "SELECT pg_current_wal_flush_lsn()")))
        fork.hand_over(tmp_path / "handed")
        wait_until(lambda: identified(fork.serving) >= (2, end))
        place = f"host=127.0.0.1 user=postgres dbname=postgres replication=database port={fork.serving.port}"
        connection = pq.PGconn.connect(place.encode())
        connection.exec_(b"BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ")
        made = connection.exec_(b"CREATE_REPLICATION_SLOT s LOGICAL pgoutput (SNAPSHOT 'use')")
        assert OFF_HISTORY in (made.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
        connection.finish()
        assert fork.serving.stop() == 0


@contextmanager
def receiving(serving: Serving, directory: Path) -> Iterator[None]:
    """Run a pg_receivewal over the service, which has begun with timeline 1."""
    directory.mkdir()
    command = [str(client("pg_receivewal", 16)), "-D", str(directory), "--no-loop"]
    process = subprocess.Popen(command, env=serving.environment())
    try:
        wait_until(lambda: any(directory.glob("00000001*")))
        yield
    finally:
        process.terminate()
        assert process.wait() == 0


def check_left(directory: Path, left: int) -> None:
    """Check that nothing was received of timeline 1 behind the place where it was left, which is a partial segment."""
    segment = directory / f"00000001{left >> 32:08X}{(left & 0xFFFFFFFF) >> 20:08X}.partial"
    assert not any(segment.read_bytes()[left % (1 << 20) :])


def test_a_promotion_is_streamed_over(tmp_path: Path) -> None:
    """From the standby that is promoted: a stream goes on, with what the promoted server says."""
    with small_server(16) as primary:
        run(primary, "CREATE TABLE t (id int PRIMARY KEY, a text)", "SELECT pg_switch_wal()")
        backup = base_backup(primary, tmp_path / "backup")
        with standby_of(primary, backup) as standby:
            flags = ("--from", conninfo_of(standby))
            run(primary, "INSERT INTO t VALUES (0, 'first')")
            catch_up(standby, value(primary, "SELECT pg_current_wal_flush_lsn()"))
            with Serving(tmp_path / "wal", backup, tmp_path / "slots", *flags) as serving:
                make_slot_by_client(serving.environment(), 16, "s", "test_decoding")
                make_slot(primary, "before")
                file = tmp_path / "out"
                stream = Streaming(
                    serving.environment(), 16, *("--slot", "s", "-f", str(file), "-o", "include-xids=0", "--no-loop")
                )
                run(primary, *(f"INSERT INTO t VALUES ({number}, 'common')" for number in range(1, 10)))
                common = texts(peek(primary, "before"))
                wait_until(lambda: content(file) == without_xids(common))
                catch_up(standby, value(primary, "SELECT pg_current_wal_flush_lsn()"))
                fork = Fork(primary, standby, tmp_path, serving)
                with receiving(serving, tmp_path / "received"):
                    expected = common + fork.promote()
                    wait_until(lambda: content(file) == without_xids(expected))
                    wait_until(lambda: any(tmp_path.glob("received/00000002*.partial")))
                assert stream.end() == 0
                left = content(tmp_path / "received" / "00000002.history").split(b"\t")[1]
                check_left(tmp_path / "received", int(Lsn.parse(left.decode())))
                assert identified(serving)[0] == 2
                assert serving.stop() == 0
