"""Memory of a window is free as soon as it is planned: Python's search for cycles comes too late, and too seldom."""

from __future__ import annotations

import gc

import pytest

from headwater.catalog.store.catalog_store import CatalogStore
from headwater.pipeline.requests.open_request import open_request
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.windows.assemble import RolledWindow
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.run_index import WindowBounds
from headwater.pipeline.windows.windows import PlanWindows
from slots.conftest import ServerRun

pytestmark = pytest.mark.server


@pytest.mark.parametrize("plugin", ["test_decoding", "pgoutput"])
def test_no_window_waits_for_the_garbage_collector(server_run: ServerRun, plugin: str) -> None:
    options = (("proto_version", "1"), ("publication_names", "every")) if plugin == "pgoutput" else ()
    opened = open_request(
        DecodeRequest(
            wal=str(server_run.wal), catalog=str(server_run.backup), database="postgres", plugin=plugin, options=options
        )
    )
    scope = Scope(opened.directory.segment_size)
    plans = PlanWindows(
        opened, scope, lambda tasks: index_in_threads(tasks, 1), 1, bounds=WindowBounds(1), goes_on=True
    )
    del opened
    gc.collect()
    before = _held()
    gc.disable()
    try:
        held = [_held() for _ in plans]
    finally:
        gc.enable()
    assert len(held) > 3
    assert {windows for windows, _ in held} == {0}
    assert max(stores for _, stores in held) <= before[1] + 1


def _held() -> tuple[int, int]:
    """Count the windows and catalogs that there are."""
    objects = gc.get_objects()
    return sum(isinstance(thing, RolledWindow) for thing in objects), sum(
        isinstance(thing, CatalogStore) for thing in objects
    )
