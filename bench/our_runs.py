"""Headwater's commands, timed: what they say of themselves, Spark's start apart."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    """One run of ``headwater decode``; what it says of itself."""
    stats, out = directory / "stats.json", directory / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = ["decode", "--wal", str(wal), "--catalog", str(catalog), "--database", "postgres", "--start", start]
    command += ["--plugin", plugin, *(["--end", end] if end is not None else [])]
    command += [part for name, value in options for part in ("-o", f"{name}={value}")]
    _run([*command, "--out", f"{out}/", "--stats-json", str(stats)])
    figures: dict[str, Any] = json.loads(stats.read_text())
    return figures


def land(wal: Path, catalog: Path, target: Path, *flags: str) -> dict[str, Any]:
    """One run of ``headwater land``; what it says of itself."""
    command = ["land", "--wal", str(wal), "--catalog", str(catalog), "--database", "postgres", "--to", str(target)]
    said: dict[str, Any] = json.loads(_run([*command, "--stats-json", "--quiet", *flags]))
    return said


def _run(arguments: Sequence[str]) -> str:
    run = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"headwater {arguments[0]} failed: {run.stderr.strip()}")
    return run.stdout


def check_equal(expected: tuple[int, int], out: Path) -> None:
    """Same number of messages and of bytes, or the figures compare different things."""
    lengths = (pc.binary_length(batch["data"]) for batch in dataset(out, format="parquet").to_batches(columns=["data"]))
    sums = [(len(some), pc.sum(some).as_py() or 0) for some in lengths]
    actual = (sum(count for count, _ in sums), sum(size for _, size in sums))
    if expected != actual:
        raise SystemExit(f"the server made {expected} messages and bytes, Headwater {actual}")
