"""A stream that is killed, between batches and inside them, on a log that grows byte by byte: nothing lost or twice.

The server's run is a random workload of sessions in threads; the sink is Spark's own, whose files say what each batch
delivered.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from headwater.pg.lsn import Lsn
from oracle.decoded_run import DecodedRun
from oracle.killing import GrowingLog, Killer, QuerySink, end_of, make_slot
from oracle.streams import RANDOM_PGOUTPUT, Stream
from slots.conftest import Command

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1500)]
FEWEST, MOST = 2, 40
"""Batches, if each were as large as it may be."""


def test_a_stream_on_a_log_that_grows(
    killed_run: DecodedRun, rng: random.Random, command: Command, tmp_path: Path
) -> None:
    run = killed_run.run
    streams = [run.streams[name] for name in RANDOM_PGOUTPUT]
    stream = rng.choice(
        [candidate for candidate in streams if candidate.error is None and len(candidate.messages) > 20]
    )
    # What is waited for below is what the server said: a difference is to be told, not waited for.
    killed_run.check(stream)
    places = [*sorted(rng.sample(range(stream.start + 1, end_of(stream)), rng.randint(3, 8))), end_of(stream)]
    log = GrowingLog(run.wal, tmp_path / "wal")
    log.target.mkdir()
    log.grow(stream.start)
    options = {"maxBytesPerTrigger": str((end_of(stream) - stream.start) // rng.randint(FEWEST, MOST))}
    if rng.random() < 0.5:
        options["slot"] = str(make_slot(command, run, stream, stream.start, tmp_path, log.target))
    else:
        options |= {"path": str(log.target), "catalog": str(run.backup), "database": run.database}
        options |= {"plugin": stream.plugin, "startingLsn": str(Lsn(stream.start))}
        options |= {f"plugin.{name}": value for name, value in stream.options}
    killer, sink = Killer(tmp_path), QuerySink(tmp_path)
    counts = [_said_by(stream, place) for place in places]
    busy = [number for number, before in enumerate([0, *counts[:-1]]) if counts[number] > before]
    kills = dict(zip(rng.sample(busy, min(2, len(busy))), ("inside", "between"), strict=False))
    number = 0
    while number < len(places):
        with killer.query(options) as query:
            begun, kill = sink.batches, ""
            while number < len(places) and not kill:
                log.grow(places[number])
                wanted, kill = counts[number], kills.pop(number, "")
                if kill == "inside":
                    query.until(partial(sink.is_amid, begun, wanted))
                else:
                    query.until(partial(sink.has, wanted))
                    number += 1
            killer.kill(query)
    killed_run.compare(stream, stream.messages, sink.messages())
    assert sink.batches > 1
    killer.wait()


def _said_by(stream: Stream, lsn: int) -> int:
    """Count the messages that there are at least once the log has got there."""
    if lsn == stream.end:
        return len(stream.messages)
    lsns, data = stream.messages.column("lsn").to_numpy(), stream.messages.column("data")
    is_commit = pc.starts_with(data, "C").to_numpy()
    return int(np.max(np.flatnonzero(is_commit & (lsns <= lsn)), initial=-1)) + 1
