"""Headwater's commands, timed: what they say of themselves, Spark's start apart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import dataset

from server_runs import OPTIONS, Options

COMMAND = str(Path(sys.executable).parent / "headwater")


def time_headwater(
    wal: Path,
    catalog: Path,
    start: str,
    directory: Path,
    end: str | None = None,
    *,
    plugin: str = "pgoutput",
    options: Options = OPTIONS,
) -> dict[str, Any]:
    """Run ``headwater decode`` once; return what it says of itself."""
    stats, out = directory / "stats.json", directory / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = ["decode", "--wal", str(wal), "--catalog", str(catalog), "--database", "postgres", "--start", start]
    command += ["--plugin", plugin, *(["--end", end] if end is not None else [])]
    command += [part for name, value in options for part in ("-o", f"{name}={value}")]
    _run([*command, "--out", f"{out}/", "--stats-json", str(stats)])
    figures: dict[str, Any] = json.loads(stats.read_text())
    return figures


def land(wal: Path, catalog: Path, target: Path, *flags: str, submit: str = "") -> dict[str, Any]:
    """Run ``headwater land`` once.

    Args:
        wal, catalog, target: see the command; flags: others.
        submit: for Spark, as PYSPARK_SUBMIT_ARGS has it.

    Returns:
        what it says of itself; and when it ``began`` to land and had ``ended``, in seconds since 1970.
    """
    command = ["land", "--wal", str(wal), "--catalog", str(catalog), "--database", "postgres", "--to", str(target)]
    run = _run([*command, "--stats-json", "--progress", "json", *flags], submit)
    stats: dict[str, Any] = json.loads(run.stdout)
    times = [json.loads(line)["time"] for line in run.stderr.splitlines() if line.startswith("{")]
    return stats | {"began": times[0], "ended": times[-1]}


def _run(arguments: Sequence[str], submit: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PYSPARK_SUBMIT_ARGS": submit} if submit else {})}
    run = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False, env=environment)
    if run.returncode != 0:
        words = "\n".join(line for line in run.stderr.splitlines() if not line.startswith("{"))
        raise SystemExit(f"headwater {arguments[0]} failed: {words.strip()}")
    return run


def check_equal(expected: tuple[int, int], out: Path) -> None:
    """Check that there are as many messages and bytes, or the figures compare different things."""
    batches = dataset(out, format="parquet").to_batches(columns=["data"])
    lengths = (pc.binary_length(cast("pa.BinaryArray", batch["data"])) for batch in batches)
    sums = [(len(some), pc.sum(some).as_py() or 0) for some in lengths]
    actual = (sum(count for count, _ in sums), sum(size for _, size in sums))
    if expected != actual:
        raise SystemExit(f"the server made {expected} messages and bytes, Headwater {actual}")
