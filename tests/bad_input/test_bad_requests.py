"""Plugins, options, arguments and outputs that are wrong, though the files are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from bad_input.clusters import Cluster
from bad_input.command import CommandHere

pytestmark = [pytest.mark.server]

PGOUTPUT = ("--plugin", "pgoutput")
COMPLETE = (*PGOUTPUT, "-o", "proto_version=1", "-o", "publication_names=pub_all")


def _window(cluster: Cluster) -> list[str]:
    return ["--wal", str(cluster.wal), "--catalog", str(cluster.backup), "--database", "postgres"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("--plugin", "wal2xml"),
            'unknown output plugin "wal2xml"; known plugins are debezium, pgoutput, test_decoding',
        ),
        (("-o", "include-cats=1"), 'option "include-cats" = "1" is unknown'),
        (("-o", "include-xids=perhaps"), 'could not parse value "perhaps" for parameter "include-xids"'),
        (PGOUTPUT, "proto_version"),
        ((*PGOUTPUT, "-o", "proto_version=1"), "publication_names"),
        ((*PGOUTPUT, "-o", "proto_version=99", "-o", "publication_names=p"), "proto_version=99"),
        ((*PGOUTPUT, "-o", "proto_version=one", "-o", "publication_names=p"), "proto_version"),
        ((*PGOUTPUT, "-o", "proto_version=1", "-o", 'publication_names="p'), "publication_names"),
        ((*COMPLETE, "-o", "proto_version=1"), "conflicting or redundant options"),
        ((*COMPLETE, "-o", "colour=blue"), "unrecognized pgoutput option: colour"),
        ((*COMPLETE, "-o", "messages=perhaps"), "messages requires a Boolean value"),
    ],
)
def test_plugin_refuses(headwater: CommandHere, cluster: Cluster, arguments: tuple[str, ...], expected: str) -> None:
    headwater(*_window(cluster), *arguments).check_failed(expected)


def test_tables_that_there_are_not(headwater: CommandHere, cluster: Cluster) -> None:
    run = headwater(*_window(cluster), "--tables", "public.item,item", "--tables", "public.i*")
    run.check_failed('no table matches "item"', "there is public.item", begun=True)


def test_unknown_publication(headwater: CommandHere, cluster: Cluster) -> None:
    options = (*PGOUTPUT, "-o", "proto_version=1", "-o", "publication_names=pub_all,nobody")
    run = headwater(*_window(cluster), *options)
    run.check_failed('publication "nobody" does not exist', begun=True)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--start", "yesterday"), 'invalid LSN "yesterday", expected two hexadecimal numbers'),
        (("--end", "0/"), 'invalid LSN "0/"'),
        (("--end", "1/2/3"), 'invalid LSN "1/2/3"'),
        (("--start", "0/123456789"), 'invalid LSN "0/123456789"'),
        (("-o", "include-xids"), 'invalid value for -o: "include-xids", expected NAME=VALUE'),
        (("-o", "=1"), 'invalid value for -o: "=1"'),
        (("-c", "TimeZone"), 'invalid value for --set: "TimeZone", expected NAME=VALUE'),
        (("-c", "TimeZone=Mars/Olympus"), 'invalid value for parameter "TimeZone": "Mars/Olympus"'),
        (("-c", "DateStyle=Julian"), 'unsupported value for parameter "DateStyle": "Julian"; supported: ISO, SQL'),
        (("-c", "IntervalStyle=sql"), 'unsupported value for parameter "IntervalStyle"'),
        (("-c", "extra_float_digits=-16"), 'unsupported value for parameter "extra_float_digits": -16'),
        (("-c", "extra_float_digits=many"), 'invalid value for parameter "extra_float_digits": "many"'),
        (("-c", "work_mem=1GB"), 'unsupported setting "work_mem"'),
        (("--tables", " , "), 'no pattern of tables in " , ", expected SCHEMA.TABLE'),
        (("--unknown-types", "maybe"), "'maybe' is not one of 'error', 'hex', 'null'"),
        (("--colour", "blue"), "No such option"),
        (("surplus",), "unexpected extra argument"),
        (
            ("--scratch", "/nowhere/at/all"),
            'cannot use --scratch "/nowhere/at/all": No such file or directory, expected',
        ),
        (("--out", "/nowhere/at/all/lines"), "no such directory; make it, or choose another --out"),
        (("--out", "/tmp"), "it is a directory; choose another --out, or /tmp/ for part files"),
        (("--out", "/"), "it exists and is not empty; choose another --out"),
        (("--out", "/dev/null/lines"), "no such directory"),
        (("--out", "s3://bucket/lines"), 'addresses of scheme "s3" are not supported: "s3://bucket/lines"'),
        (
            ("--out", "/proc/lines.parquet"),
            'cannot write "/proc/lines.parquet": No such file or directory; choose another',
        ),
        (("--stats-json", "/nowhere/at/all/x.json"), "no such directory; make it, or choose another --stats-json"),
        (("--out", "x.parquet", "--with-lsn"), "--with-lsn is for lines"),
    ],
)
def test_usage(headwater: CommandHere, cluster: Cluster, arguments: tuple[str, ...], expected: str) -> None:
    headwater(*_window(cluster), *arguments).check_failed(expected, status=2)


@pytest.mark.parametrize("left_out", ["--wal", "--catalog"])
def test_required_option(headwater: CommandHere, cluster: Cluster, left_out: str) -> None:
    words = _window(cluster)
    at = words.index(left_out)
    run = headwater(*words[:at], *words[at + 2 :])
    run.check_failed(f"Missing option '{left_out}'", "headwater decode --help", status=2)


def test_full_device(headwater: CommandHere, cluster: Cluster) -> None:
    run = headwater(*_window(cluster), "--out", "/dev/full")
    run.check_failed("could not write output: No space left on device", "in /dev/full", begun=True)
    assert Path("/dev/full").is_char_device()


def test_output_through_a_link(headwater: CommandHere, cluster: Cluster, tmp_path: Path, whole: bytes) -> None:
    """The link stays, the file it names is replaced."""
    link, target = tmp_path / "link", tmp_path / "target"
    target.write_text("before")
    link.symlink_to(target)
    headwater(*_window(cluster), "--out", link).check_passed()
    assert link.is_symlink()
    assert whole == target.read_bytes()


def test_failed_run_leaves_the_output_of_the_one_before(
    headwater: CommandHere, cluster: Cluster, tmp_path: Path
) -> None:
    out = tmp_path / "lines"
    out.write_text("before")
    options = (*PGOUTPUT, "-o", "proto_version=1", "-o", "publication_names=nobody")
    headwater(*_window(cluster), *options, "--out", out).check_failed("nobody", begun=True)
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines", "out", "scratch"]
