"""``headwater waldump`` against the ``pg_waldump`` of the same major version: every byte of standard output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.cli.main import main
from headwater.errors import HeadwaterWarning
from headwater.pg.lsn import Lsn
from headwater.wal.segments.directory import WalDirectory
from packaged_servers import client_of
from records.server_records import RecordedWal

pytestmark = pytest.mark.server

COMMAND = str(Path(sys.executable).with_name("headwater"))
ZONE = "America/St_Johns"


@dataclass(frozen=True)
class Shown:
    """The output of a run, and its exit status."""

    stdout: bytes
    stderr: str
    returncode: int


Ours = Callable[[RecordedWal, list[str]], Shown]


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Ours]:
    """Give a function that runs the command in this process."""

    def run(recorded: RecordedWal, words: list[str]) -> Shown:
        monkeypatch.setattr(sys, "argv", ["headwater", "waldump", "--wal", str(recorded.wal), *words])
        capfdbinary.readouterr()
        status = 0
        try:
            # As outside of tests, where a warning is no error.
            with warnings.catch_warnings():
                warnings.simplefilter("always", HeadwaterWarning)
                main()
        except SystemExit as end:
            status = int(end.code or 0)
        written = capfdbinary.readouterr()
        return Shown(written.out, written.err.decode(), status)

    monkeypatch.setenv("TZ", ZONE)
    time.tzset()
    yield run
    monkeypatch.undo()
    time.tzset()


def theirs(recorded: RecordedWal, words: list[str]) -> Shown:
    program = client_of("pg_waldump", recorded.major)
    command = [str(program), "-p", str(recorded.wal), *words]
    run = subprocess.run(command, env={**os.environ, "TZ": ZONE}, capture_output=True, check=False)
    return Shown(run.stdout, run.stderr.decode(), run.returncode)


def first_lsn(recorded: RecordedWal) -> str:
    return str(Lsn(WalDirectory.scan(recorded.wal).start_lsn))


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--bkp-details"],
        ["--stats"],
        ["--stats=record"],
        ["--rmgr", "heap2", "--rmgr=Transaction"],
        ["--relation", "1663/5/1249", "--block", "0"],
        ["--fork", "vm", "-b"],
        ["--fullpage", "--limit", "100"],
        ["-r", "btree", "--stats=record", "-n", "1000"],
        ["-x", "0", "-z"],
        ["-x", "4000000000", "-z"],
        ["--quiet"],
    ],
    ids=" ".join,
)
def test_the_same_bytes(recorded: RecordedWal, ours: Ours, words: list[str]) -> None:
    """The end of the log is an error of pg_waldump's; ours says on standard error where it is."""
    expected = theirs(recorded, [*words, "--start", first_lsn(recorded)])
    shown = ours(recorded, words)
    assert shown.stdout == expected.stdout
    assert shown.returncode == 0
    end = re.search(r"invalid record length at ([0-9A-F/]+)", expected.stderr)
    if end is not None and "--quiet" not in words:
        # Workers of Spark that other tests have started write to the same standard error when they end.
        assert f"headwater: the WAL ends at {end[1]}: invalid record length" in shown.stderr
    else:
        assert shown.stderr == ""


def test_where_it_begins_and_ends(recorded: RecordedWal, ours: Ours) -> None:
    """At any byte: the first record that starts there or later, and the last that is whole before the end."""
    middle = recorded.start + (recorded.end - recorded.start) // 3 // 8192 * 8192
    for start, end in ((0, 70000), (4, 70005), (24, 65536), (4000, 8192), (8000, 8200), (16, 70013), (8191, 66666)):
        words = ["--start", str(Lsn(middle + start)), "--end", str(Lsn(middle + end))]
        expected, shown = theirs(recorded, words), ours(recorded, words)
        lines = expected.stdout.decode().splitlines()
        skipped = [line for line in (*lines[:1], *expected.stderr.splitlines()) if "first record is after" in line]
        # 15 says it on standard output.
        lines = lines[1:] if lines[:1] == skipped else lines
        assert shown.stdout.decode().splitlines() == lines, words
        assert [line.split("first record")[1] in shown.stderr for line in skipped] == [True] * len(skipped)
        assert (shown.returncode, "WAL ends" in shown.stderr) == (expected.returncode, False)


def test_the_first_record_goes_on_behind_the_end(recorded: RecordedWal, ours: Ours) -> None:
    if not recorded.inspected:
        pytest.skip(f"no pg_walinspect of PostgreSQL {recorded.major}")
    row = next(row for row in recorded.inspected if row.length > 1000 and row.lsn > recorded.start)
    for start, end in (
        (row.lsn, row.lsn + 500),
        (row.lsn - 8, row.lsn + row.length - 1),
        (row.lsn, row.lsn + row.length),
    ):
        words = ["--start", str(Lsn(start)), "--end", str(Lsn(end))]
        expected, shown = theirs(recorded, words), ours(recorded, words)
        assert (shown.returncode, shown.stdout) == (expected.returncode, expected.stdout), words
        assert ("could not find a valid record" in shown.stderr) == (expected.returncode != 0)


def test_every_end_inside_a_record(recorded: RecordedWal, ours: Ours) -> None:
    """A record is shown once its last byte lies before the end, whatever the padding after it."""
    rows = [row for row in recorded.dumped or [] if row.length % 8][100:103]
    for row in rows:
        for end in range(row.lsn + row.length - 2, row.lsn + row.length + 3):
            words = ["--start", str(Lsn(row.lsn)), "--end", str(Lsn(end))]
            assert ours(recorded, words).stdout == theirs(recorded, words).stdout


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (["--rmgr", "heapp"], 2, 'resource manager "heapp" does not exist; --rmgr=list shows their names'),
        (["--relation", "1663/5"], 2, 'invalid --relation "1663/5", expected tablespace OID/database OID/file number'),
        (["--block", "3"], 2, "--block is a block of --relation, which is not given"),
        (["--start", "0/9", "--end", "0/8"], 2, "--end 0/8 lies not behind --start 0/9"),
        (["--start", "what"], 2, 'invalid LSN "what", expected two hexadecimal numbers such as 0/16B3748'),
        (["--stats=all"], 2, "'all' is not one of 'rmgr', 'record'"),
        (["--start", "F/0"], 1, "F/0"),
        (["--end", "0/30"], 1, "could not find a valid record"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_errors_are_one_line(recorded: RecordedWal, ours: Ours, words: list[str], status: int, expected: str) -> None:
    if recorded.major != 16:
        pytest.skip("one version is enough")
    shown = ours(recorded, words)
    lines = shown.stderr.splitlines()
    assert (shown.returncode, shown.stdout, len(lines)) == (status, b"", 1), lines
    assert lines[0].startswith("headwater: ")
    assert expected in lines[0]


def test_names_of_resource_managers(recorded: RecordedWal, ours: Ours) -> None:
    if recorded.major > 16:
        pytest.skip("one version is enough")
    assert ours(recorded, ["--rmgr=list"]).stdout == theirs(recorded, ["--rmgr=list"]).stdout


def test_a_damaged_log_is_shown_up_to_the_damage(recorded: RecordedWal, tmp_path: Path) -> None:
    if recorded.major != 16:
        pytest.skip("one version is enough")
    names = sorted(path.name for path in recorded.wal.iterdir() if re.fullmatch("[0-9A-F]{24}", path.name))
    for name in names:
        (tmp_path / name).write_bytes((recorded.wal / name).read_bytes())
    with (tmp_path / names[3]).open("r+b") as segment:
        segment.seek(500_000)
        segment.write(bytes(64))
    run = subprocess.run([COMMAND, "waldump", "--wal", str(tmp_path)], capture_output=True, check=False)
    assert run.returncode == 1
    assert len(run.stderr.decode().splitlines()) == 1
    assert run.stdout == b"" or run.stdout.endswith(b"\n")


def test_a_reader_that_goes_away_ends_it(recorded: RecordedWal) -> None:
    command = [COMMAND, "waldump", "--wal", str(recorded.wal)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.readline()
        run.stdout.close()
        assert run.stderr.read() == b""
        assert run.wait() == 1


def test_memory_does_not_grow_with_the_log(recorded: RecordedWal) -> None:
    """A process that lists all of the log holds more than one that lists its beginning only.

    The difference is less than what it reads and says more.
    """
    if recorded.major != 16:
        pytest.skip("one version is enough")
    wal = WalDirectory.scan(recorded.wal)
    assert wal.stop_lsn - wal.start_lsn > 40 << 20
    peaks, sizes, ends = [], [], (wal.start_lsn + (1 << 25), wal.stop_lsn)
    for end in ends:
        words = ["headwater", "waldump", "--wal", wal.path, "--end", str(Lsn(end))]
        code = f"import sys; sys.argv = {words!r}\nfrom headwater.cli.main import main\n"
        code += "from headwater.base.malloc_settings import peak_memory\n"
        code += "main()\nprint('peak', peak_memory(), file=sys.stderr)"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        peaks.append(int(run.stderr.split()[-1]))
        sizes.append(len(run.stdout))
    assert peaks[1] - peaks[0] < sizes[1] - sizes[0] + ends[1] - ends[0], (peaks, sizes)
