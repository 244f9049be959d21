"""The engine that is chosen by size: started once, by the first work that is not small, and its start is timed."""

from __future__ import annotations

import time

from headwater.jobs.engine import Engine, EngineBySize
from headwater.jobs.local_engine import LocalEngine


def test_the_large_engine_is_started_once_and_its_start_is_timed() -> None:
    small, starts = LocalEngine(), list[LocalEngine]()

    def start() -> Engine:
        began = time.perf_counter()
        while time.perf_counter() == began:
            pass
        starts.append(LocalEngine())
        return starts[-1]

    engine = EngineBySize(small, start, 100)
    assert engine.for_bytes(100) is small
    assert engine.startup_seconds == 0.0
    assert engine.for_bytes(101) is starts[0]
    seconds = engine.startup_seconds
    assert seconds > 0.0
    assert engine.for_bytes(102) is starts[0]
    assert (len(starts), engine.startup_seconds) == (1, seconds)
