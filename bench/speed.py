"""Headwater's speed beside PostgreSQL's own, on the same WAL: ``make bench``.

Guards the promises of speed, latency and memory. Figures are of one shape (:mod:`results`), and each has a module that
says what is measured and how:

- :mod:`log_figures`: whole commands beside the server's decoding of the same WAL, on :mod:`workloads` that users have;
- :mod:`snapshot`: rows of a backup beside COPY; :mod:`index_speed`: the index beside ``pg_waldump``;
- :mod:`scaling`: a second core; :mod:`huge_transaction`: memory for one transaction of 5 GB;
- :mod:`stream_latency` and :mod:`live_cdc`: a server that works, followed;
- :mod:`serve_speed`, :mod:`subscriber_speed`: the service and its subscribers; :mod:`apply_speed`,
  :mod:`apply_live`: applying;
- :mod:`debezium_embedded`: beside Debezium's engine, if it is there; :mod:`start`: what a whole command takes.

Machines differ and are noisy: ratios count, with their range. Figures go to ``build/bench.json``, behind each
measurement, charts beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

import apply_live
import apply_speed
import debezium_embedded
import huge_transaction
import index_speed
import live_cdc
import log_figures
import scaling
import serve_speed
import snapshot
import start
import stream_latency
import subscriber_speed
from charts import write_charts
from results import Measurement, Result, Sitting, figures_table, write_json
from server_runs import RUNS

BUILD = Path(__file__).resolve().parent.parent / "build"
TABLE_WIDTH = 140

MEASUREMENTS = (
    *log_figures.MEASUREMENTS,
    snapshot.MEASUREMENT,
    index_speed.MEASUREMENT,
    scaling.MEASUREMENT,
    huge_transaction.MEASUREMENT,
    stream_latency.MEASUREMENT,
    live_cdc.MEASUREMENT,
    serve_speed.MEASUREMENT,
    subscriber_speed.MEASUREMENT,
    apply_speed.MEASUREMENT,
    apply_live.MEASUREMENT,
    debezium_embedded.MEASUREMENT,
    start.MEASUREMENT,
)
NAMES = tuple(name for measurement in MEASUREMENTS for name in measurement.names)


def measured(
    measurement: Measurement, names: Sequence[str], arguments: argparse.Namespace, console: Console
) -> list[Result]:
    """Make the figures of a measurement, in a directory of its own; none if it fails, which is reported."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
        sitting = Sitting(Path(directory), console, arguments.changes, arguments.seconds, arguments.runs)
        try:
            return measurement.measure(sitting, names)
        except SystemExit as error:
            console.print(f"[red]{', '.join(names)}: {error}[/]")
        except Exception:  # What one of them meets does not end the others.
            console.print_exception()
    return []


def parsed() -> argparse.Namespace:
    """Parse what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; default: all")
    parser.add_argument("--changes", type=int, help="rows or changes of each workload, instead of its own number")
    parser.add_argument("--seconds", type=float, help="of load on a server that is followed, instead of its own number")
    parser.add_argument("--runs", type=int, help="of each, instead of its own number")
    parser.add_argument("--keep", action="store_true", help="figures of before stay where they are not measured again")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no figures are called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    return arguments


def main() -> None:
    """Measure all figures, or those named."""
    arguments = parsed()
    wanted = arguments.names or NAMES
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    path = BUILD / "bench.json"
    earlier: dict[str, Any] = json.loads(path.read_text()) if arguments.keep and path.exists() else {}
    results: list[Result] = []
    for measurement in MEASUREMENTS:
        names = [name for name in measurement.names if name in wanted]
        if names:
            results += measured(measurement, names, arguments, console)
            write_json(results, path, earlier)
    machine = f"{os.cpu_count()} cores ({platform.machine()})"
    console.print(f"PostgreSQL 16 and Headwater on {machine}, medians of {arguments.runs or RUNS}")
    console.print(figures_table(results))
    console.print(f"written to {', '.join(str(chart) for chart in (path, *write_charts(path, BUILD)))}")
    missing = set(wanted) - {result.name for result in results} - set(debezium_embedded.MEASUREMENT.names)
    if missing:
        raise SystemExit(f"not measured: {', '.join(sorted(missing))}")


if __name__ == "__main__":
    main()
