"""``python -m soak.stores``: tables in a store that fails one request in so many, kept by runs that are killed.

A server works; of each format a run lands what it writes, in the three kinds of commits: changes, rows that are written
anew, and rows that are deleted beside files. A run is killed when it has asked the store so often, so each comes some
way however slow the machine is. In the end all tables are what the server has.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bad_input.running_command import Running, running
from headwater.lakes.landing_target import COPY_ON_WRITE, MERGE_ON_READ, LandingTarget
from headwater.landing.landing_modes import CHANGELOG, CURRENT
from landing.following import AT_ONCE, Source, running_source
from landing.stores.faults import faults
from landing.stores.proxy import PASS, StoreProxy, store_proxy
from landing.stores.server import LakeStore, chosen_store
from landing.stores.targets import CATALOG, place, read, target_of

KINDS = (
    ("parquet", CHANGELOG, COPY_ON_WRITE),
    ("parquet", CURRENT, MERGE_ON_READ),
    ("delta", CURRENT, COPY_ON_WRITE),
    ("delta", CURRENT, MERGE_ON_READ),
    ("iceberg", CURRENT, MERGE_ON_READ),
)
PAUSE_SECONDS = 0.1
"""Between two transactions of the server."""

LIFE = (10, 100)
"""Requests after which a run is killed, at least and at most."""


@dataclass
class Report:
    """The report of a run.

    Attributes:
        seconds: of work; one_in: so many requests one has failed.
        requests, failed: at the proxies; kills: of runs; ended: runs that have ended by themselves, with an error.
        transactions: of the server; unequal: names of targets that have not what it has.
        errors: what runs have said that ended by themselves, and what is wrong with tables.
    """

    seconds: float
    one_in: int
    requests: int = 0
    failed: int = 0
    kills: int = 0
    ended: int = 0
    transactions: int = 0
    unequal: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass
class Run:
    """A run that lands to a target, and is begun again when it is gone.

    Attributes:
        source: the server; target: where to; proxy: of this run's alone; directory: for temporary files.
        rng: says when it is killed; process: it, as it runs; end: of its life, in requests at the proxy.
    """

    source: Source
    target: LandingTarget
    proxy: StoreProxy
    directory: Path
    rng: random.Random
    stack: ExitStack = field(default_factory=ExitStack)
    process: Running | None = None
    end: int = 0

    def words(self, *more: object) -> list[object]:
        """Return the command."""
        target, source = self.target, self.source
        words: list[object] = ["land", "--wal", source.server.wal_directory, "--catalog", source.backup]
        words += ["--database", "postgres", "--to", target.where, "--format", target.format, "--mode", target.mode]
        words += ["--write-mode", target.write_mode, "--storage-option", f"endpoint_url={self.proxy.endpoint}"]
        words += ["--quiet", *more]  # Nobody reads meanwhile what it prints.
        if target.iceberg_catalog is not None:
            words += ["--iceberg-catalog", target.iceberg_catalog, "--namespace", str(target.namespace)]
        return words

    def begin(self) -> None:
        """Let it follow."""
        upkeep = ("--maintain", "2s", "--maintain-every", "1") if self.target.mode == CHANGELOG else ()
        words = self.words("--follow", *AT_ONCE, *upkeep)
        self.end = len(self.proxy.asked) + self.rng.randint(*LIFE)
        self.process = self.stack.enter_context(running(*words, directory=self.directory))

    def kill_or_revive(self, report: Report) -> None:
        """Kill it at the end of its life, and begin it again, as where it has ended by itself."""
        assert self.process is not None
        if self.process.process.poll() is not None:
            report.ended += 1
            report.errors.append(f"{self.target.where}: {self.process.standard_error()[-500:]}")
        elif len(self.proxy.asked) >= self.end:
            self.process.kill()
            report.kills += 1
        else:
            return
        self.stack.close()
        self.begin()

    def finish(self) -> str:
        """Kill it, and let a run come to the end of the WAL; gives what it says where that fails."""
        assert self.process is not None
        self.process.kill()
        self.stack.close()
        with running(*self.words(), directory=self.directory) as process:
            output = process.standard_error()
            return f"{self.target.where}: {output[-500:]}" if process.process.wait() else ""


def soak(seconds: float, one_in: int, seed: int, directory: Path) -> Report:
    """Run for so long, and compare; return what has happened."""
    report = Report(seconds, one_in)
    with ExitStack() as stack:
        source = stack.enter_context(running_source(directory))
        store = stack.enter_context(chosen_store())
        os.environ |= {"AWS_ACCESS_KEY_ID": store.key, "AWS_SECRET_ACCESS_KEY": store.secret}
        runs = []
        for number, kind in enumerate(KINDS):
            proxy = stack.enter_context(store_proxy(store.endpoint))
            proxy.choose = faults(seed + number, one_in)
            runs.append(Run(source, _target(store, *kind), proxy, directory, random.Random(seed + number)))
        for run in runs:
            run.begin()
        _work(report, source, runs, random.Random(seed))
        report.errors += filter(None, [run.finish() for run in runs])
        _compare(report, source, [run.target for run in runs])
        fates = [request.fate for run in runs for request in run.proxy.asked]
        report.requests, report.failed = len(fates), sum(fate != PASS for fate in fates)
    return report


def _compare(report: Report, source: Source, targets: list[LandingTarget]) -> None:
    expected = rows_of(source)
    for target in targets:
        rows, problem = landed(target)
        if rows != expected:
            report.unequal.append(str(target.where))
        if problem:
            report.errors.append(f"{target.where}: {problem}")


def _target(store: LakeStore, form: str, mode: str, write_mode: str) -> LandingTarget:
    return target_of(place(store, f"soak-{form}-{mode}-{write_mode}-{os.getpid()}"), form, mode, write_mode)


def _work(report: Report, source: Source, runs: list[Run], rng: random.Random) -> None:
    """Let the server work, and kill runs at their time."""
    began = time.monotonic()
    while time.monotonic() - began < report.seconds:
        first, some = report.transactions * 10, rng.randrange(10)
        source.run(
            f"INSERT INTO t SELECT i, repeat('x', 300) FROM generate_series({first}, {first + 9}) i",
            f"UPDATE t SET a = a || 'y' WHERE id % 10 = {some} AND id > {first - 500}",
            f"DELETE FROM t WHERE id % 17 = {some} AND id > {first - 500}",
        )
        report.transactions += 1
        for run in runs:
            run.kill_or_revive(report)
        time.sleep(PAUSE_SECONDS)


def rows_of(source: Source) -> list[tuple[Any, ...]]:
    """Return what the server has."""
    with source.server.connect() as connection:
        return connection.execute(b"SELECT id, a FROM t ORDER BY id").fetchall()


def landed(target: LandingTarget) -> tuple[list[tuple[Any, ...]], str]:
    """Return what a table has, or what its changes lead to; and what is wrong with it."""
    table = read(target, "public.t")
    rows = [] if table is None else table.to_pylist()
    if target.mode == CURRENT:
        return sorted((row["id"], row["a"]) for row in rows), ""
    there: dict[int, tuple[Any, ...]] = {}
    for row in sorted(rows, key=_place):
        if row["_change_type"] in ("delete", "update_preimage"):
            there.pop(row["id"], None)
        else:
            there[row["id"]] = (row["id"], row["a"])
    twice = len(rows) - len(set(map(_place, rows)))
    return sorted(there.values()), f"{twice} changes have landed twice" if twice else ""


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    is_after = row["_change_type"] not in ("delete", "update_preimage")
    return row["_commit_lsn"], row["_lsn"], row["_seq"], is_after


def main() -> int:
    """Run as a program; return the exit status: 1 where a table is not what the server has."""
    parser = argparse.ArgumentParser(prog="python -m soak.stores", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--one-in", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--out", type=Path, default=Path("build/soak-stores.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwater-soak-") as directory:
        name = f"PYICEBERG_CATALOG__{CATALOG.upper()}__"
        os.environ |= {f"{name}URI": f"sqlite:///{directory}/catalog.db", f"{name}TYPE": "sql"}
        os.environ["AWS_EC2_METADATA_DISABLED"] = "1"
        report = soak(arguments.seconds, arguments.one_in, arguments.seed, Path(directory))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"seed": arguments.seed, **asdict(report)}, indent=1) + "\n")
    sides = f"unequal: {', '.join(report.unequal)}" if report.unequal else "all tables equal"
    print(
        f"{report.transactions} rounds of work, {report.requests} requests, {report.failed} of them failed, "
        f"{report.kills} kills, {report.ended} runs ended by themselves: {sides}"
    )
    return 1 if report.unequal or report.errors else 0


if __name__ == "__main__":
    sys.exit(main())
