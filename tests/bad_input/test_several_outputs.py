"""Several outputs of one run of the command: which flags are whose, what fails, and what comes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bad_input.clusters import Cluster
from bad_input.command import CommandHere
from bad_input.running_command import running
from headwater.pg.lsn import Lsn
from headwater.slots.kept_state import lsn_of_name

pytestmark = [pytest.mark.server]

PGOUTPUT = ("--plugin", "pgoutput", "-o", "proto_version=1", "-o", "publication_names=pub_all")
OUTPUTS = {
    "a": ("--plugin", "test_decoding", "--with-lsn"),
    "b": (*PGOUTPUT, "-o", "messages=true"),
    "c.parquet": (*PGOUTPUT, "-o", "binary=true"),
    "d/": ("--plugin", "wal2json", "-o", "format-version=2", "--tables", "public.item", "-c", "TimeZone=Europe/Oslo"),
}


def _window(cluster: Cluster) -> list[str]:
    return ["--wal", str(cluster.wal), "--catalog", str(cluster.backup), "--database", "postgres"]


def _files(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--plugin", "pgoutput", "--out", "x", "--plugin", "wal2json", "--out", "./x"), 'two outputs go to "./x"'),
        (("--plugin", "pgoutput", "--out", "-", "--plugin", "wal2json", "--out", "-"), 'two outputs go to "-"'),
        (("--plugin", "pgoutput", "--out", "x/", "--plugin", "wal2json", "--out", "x/y"), "lie one in the other"),
        (("--plugin", "pgoutput", "--out", "x", "--plugin", "wal2json"), "--plugin wal2json has no --out"),
        (
            ("-o", "a=b", "--plugin", "pgoutput", "--out", "x", "--plugin", "wal2json", "--out", "y"),
            "--option stands before the first --plugin",
        ),
        (
            (
                "--plugin",
                "pgoutput",
                "--out",
                "x",
                "--end",
                "0/1",
                "--plugin",
                "wal2json",
                "--out",
                "y",
                "--end",
                "0/2",
            ),
            "--end is for the whole run",
        ),
        (
            ("--plugin", "test_decoding", "--out", "x", "--plugin", "pgoutput", "-o", "x=y", "--out", "y"),
            'output "y": unrecognized pgoutput option: x',
        ),
        (("--plugin", "test_decoding", "--out", "x", "--plugin", "nobody", "--out", "y"), 'output "y": unknown output'),
        (("--plugin", "test_decoding", "--out", "x", "--plugin=wal2json", "--out", "y", "more"), "unexpected extra"),
    ],
)
def test_usage(headwater: CommandHere, cluster: Cluster, arguments: tuple[str, ...], expected: str) -> None:
    status = 1 if expected.startswith("output") else 2
    headwater(*_window(cluster), *arguments).check_failed(expected, status=status)


@pytest.mark.spark
def test_one_pass_says_what_many_say(headwater: CommandHere, cluster: Cluster, tmp_path: Path) -> None:
    """Also from a state on that all outputs have left; WAL is indexed once, and read once for outputs alike."""
    together, alone, states = (tmp_path / name for name in ("together", "alone", "states"))
    for directory in (together, alone, states):
        directory.mkdir()
    stats = tmp_path / "stats.json"
    words = [word for name, flags in OUTPUTS.items() for word in (*flags, "--out", f"{together}/{name}")]
    window = [*_window(cluster), "--window-bytes", str(2 << 20), "--stats-json", stats]
    headwater(*window, *words, "--keep-states", states).check_passed()
    figures = json.loads(stats.read_text())
    for name, flags in OUTPUTS.items():
        headwater(*window, *flags, "--out", f"{alone}/{name}").check_passed()
        own = json.loads(stats.read_text())
        assert own["wal_bytes_indexed"] == figures["wal_bytes_indexed"]
        assert own["messages"] == figures[f"{together}/{name}"]["messages"] > 0
        of_all = figures[f"{together}/a"]["wal_bytes_decoded"]
        assert own["wal_bytes_decoded"] <= figures["wal_bytes_decoded"] < 1.1 * of_all
    actual, expected = _files(together), _files(alone)
    assert {name: actual[name] for name in ("a", "b", "c.parquet")} == {
        name: expected[name] for name in ("a", "b", "c.parquet")
    }
    _check_state(headwater, cluster, sorted(states.iterdir()), tmp_path)


def _check_state(headwater: CommandHere, cluster: Cluster, states: list[Path], tmp_path: Path) -> None:
    """Check that each output goes on with its own state, and none with another's."""
    state = states[len(states) // 2]
    begin = ["--wal", cluster.wal, "--from-state", state]
    lsn = lsn_of_name(state.name)
    assert lsn is not None
    later, since = tmp_path / "later", tmp_path / "since"
    words = [word for name in ("b", "a") for word in (*OUTPUTS[name], "--out", f"{later}-{name}")]
    headwater(*begin, *words).check_passed()
    headwater(*_window(cluster), "--start", str(Lsn(lsn)), *OUTPUTS["a"], "--out", since).check_passed()
    assert Path(f"{later}-a").read_bytes() == since.read_bytes() != b""
    refused = headwater(*begin, *OUTPUTS["a"], "--out", f"{later}-x", *PGOUTPUT, "--out", f"{later}-y")
    refused.check_failed(
        'the state has nothing of the output "pgoutput -o proto_version=1 -o publication_names=pub_all"',
        '"test_decoding"',
        "with --catalog",
        status=2,
    )


@pytest.mark.spark
def test_an_output_that_fails_ends_the_run(headwater: CommandHere, cluster: Cluster) -> None:
    """Nothing is left of any, also where its window comes late."""
    good = ("--plugin", "test_decoding", "--out", f"{headwater.out}/good")
    bad = ("--plugin", "pgoutput", "-o", "proto_version=1", "-o", "publication_names=nobody")
    failed = headwater(*_window(cluster), *good, *bad, "--out", f"{headwater.out}/bad/", "--window-bytes", "1")
    failed.check_failed(f'output "{headwater.out}/bad/": publication "nobody" does not exist', begun=True)


@pytest.mark.spark
def test_one_of_them_goes_to_standard_output(headwater: CommandHere, cluster: Cluster, whole: bytes) -> None:
    words = ("--plugin", "wal2json", "--out", f"{headwater.scratch.parent}/json", "--plugin", "test_decoding")
    assert headwater(*_window(cluster), *words, "--out", "-").check_passed() == whole


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_that_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """A place has its whole output whatever the moment; the same run again writes all."""
    words = [word for name, flags in OUTPUTS.items() for word in (*flags, "--out", f"{tmp_path}/{name}")]
    command = ["decode", *_window(cluster), *words, "--window-bytes", "1"]
    with running(*command, directory=tmp_path) as run:
        run.until(run.exists(".*/a"))
        run.kill()
    assert not any((tmp_path / name).exists() for name in OUTPUTS)
    with running(*command, directory=tmp_path) as run:
        assert run.process.wait() == 0
    assert all((tmp_path / name).exists() for name in OUTPUTS)
