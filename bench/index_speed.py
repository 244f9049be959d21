"""WAL that is indexed on one core, beside ``pg_waldump --stats`` on the same WAL.

The index is what Headwater makes of every byte of WAL before anything is decoded: pages framed into records, each
record's checksum verified, rows for what it changed. ``pg_waldump`` reads, verifies and counts the same records. Both
run on one core, in turns, on files that lie in the system's memory; of Headwater it is the tasks' own work in a process
whose kernels are loaded, as a worker's are, without Spark.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection

from cores import on_cores, workers_on_cores
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.open_request import open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.index_job import IndexTask, cut_runs
from headwater.rmgr.index.wal_index import Request
from logs import Log, written
from results import MEGABYTE, Measurement, Result, Sitting
from server_runs import OPTIONS, RUNS
from workloads import INSERTS


def measure(sitting: Sitting, _names: Collection[str]) -> list[Result]:
    """Write a log, index it and have ``pg_waldump`` count it, in turns."""
    ours, theirs, runs = [], [], sitting.runs or RUNS
    with written(INSERTS, sitting) as (server, log), workers_on_cores(1) as worker:
        server.stop()
        for turn in range(runs + 1):
            with sitting.console.status(f"index: run {turn} of {runs}"):
                start, seconds = worker.submit(indexed, log).result()
                size = (Lsn.parse(log.end) - start) / MEGABYTE
                ours.append(size / seconds)
                theirs.append(size / waldump_seconds(server, log, start))
    about, beside = "WAL indexed on one core", {"pg_waldump": tuple(theirs[1:])}
    return [Result("index", about, "MB/s", tuple(ours[1:]), beside, target=1.2)]


def indexed(log: Log) -> tuple[int, float]:
    """Index a log, in the worker; return where its index begins and the seconds of all tasks, one after the other."""
    request = DecodeRequest(str(log.wal), str(log.backup), "postgres", plugin="pgoutput", options=OPTIONS)
    opened = open_request(request)
    store, directory = opened.store, opened.directory
    asked = Request((store.database_oid,), tuple(sorted(store.files.locators())), store.major)
    runs = cut_runs(store.start_lsn, Lsn.parse(log.end), directory.segment_size, parallel=1)
    tasks = [IndexTask(directory, lo, hi, asked) for lo, hi in runs]
    began = time.perf_counter()
    for task in tasks:
        task.run()
    return store.start_lsn, time.perf_counter() - began


def waldump_seconds(server: EmbeddedPostgres, log: Log, start: int) -> float:
    """Measure the seconds of ``pg_waldump --stats`` on one core."""
    command = [str(server.programs.program("pg_waldump")), "--stats", "--path", str(log.wal)]
    command += ["--start", str(Lsn(start)), "--end", log.end]
    with on_cores(1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - began


MEASUREMENT = Measurement(("index",), measure)
