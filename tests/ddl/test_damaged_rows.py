"""Damaged rows of catalogs: DDL is decoded, or refused with an error of ours."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ddl.copying import recorded
from ddl.random_definitions import RandomDefinitions
from headwater.catalog.versions import Version
from headwater.errors import HeadwaterError
from headwater.pipeline.ddl import open_ddl
from headwater.pipeline.requests.scope import NO_COMMIT, Scope
from headwater.pipeline.windows.assemble import RolledWindow
from headwater.pipeline.windows.ddl_steps import ddl_of_window
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS
from headwater.pipeline.windows.windows import windows_in_threads

pytestmark = pytest.mark.server

DAMAGES = 60
PLACES = 12
"""Rows that are damaged at a time: an error hides what would come after it."""


def test_damaged_rows(tmp_path: Path) -> None:
    done: list[bool] = []

    def work(session: Any) -> None:
        workload = RandomDefinitions(session, 5, 17)
        workload.set_up()
        for _ in range(60):
            workload.transaction()

    def watch(window: RolledWindow, _scope: Scope) -> None:
        done.extend(damage(window, random.Random(seed)) for seed in range(DAMAGES))

    with recorded(17, tmp_path, work) as server:
        opened = open_ddl(server.request())
        scope = Scope(opened.directory.segment_size, commits=NO_COMMIT)
        for _ in windows_in_threads(opened, scope, DEFAULT_BOUNDS, watch=watch):
            pass
    assert len(done) == DAMAGES
    assert 0 < sum(done) < DAMAGES


def damage(window: RolledWindow, r: random.Random) -> bool:
    """Tell the DDL of a window in which bytes of rows are others; whether that was refused."""
    store, txns = window.store, window.commits
    rows = [
        (store.tables[oid], version)
        for oid in sorted(store.tables)
        for version in store.tables[oid].made_versions()
        if version.inserter in store.redo.touched
    ]
    chosen = [r.choice(rows) for _ in range(PLACES)]
    sound = [(version, version.data) for _, version in chosen]
    try:
        for table, version in chosen:
            table.note_change(version)
            _scratch(version, r)
        for _ in ddl_of_window(window.index.rows, txns, store, txns.database == store.database_oid):
            pass
    except HeadwaterError:
        return True
    finally:
        for (table, version), (_, data) in zip(chosen, sound, strict=True):
            version.become(data)
            table.note_change(version)
    return False


def _scratch(version: Version, r: random.Random) -> None:
    tail = bytearray(version.data.tail)
    for _ in range(r.randint(1, 4)):
        at = r.randrange(len(tail))
        tail[at] = r.choice((0, 1, 2, 255, tail[at] ^ 1 << r.randrange(8), ord("Z"), ord(":"), ord("}")))
    version.data = version.data._replace(tail=bytes(tail))
