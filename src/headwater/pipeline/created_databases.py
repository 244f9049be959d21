"""The state of a database that the WAL has created since a copy of a cluster was taken; then it is as any other.

One pass over the WAL since the copy finds it, with either strategy of CREATE DATABASE
(:mod:`headwater.pipeline.windows.databases`). Nothing is decoded.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import replace
from functools import partial

from headwater.catalog.rows import DatabaseRow
from headwater.catalog.store.image_io import store_of
from headwater.catalog.versions import NEVER
from headwater.errors import CatalogError
from headwater.pg.catalogs import PG_DATABASE
from headwater.pipeline.requests.request import SKIP_GAP, DecodeRequest
from headwater.pipeline.slot_moves import WINDOW
from headwater.pipeline.windows.databases import ChosenDatabases, DatabaseChoice
from headwater.pipeline.windows.index_job import index_in_threads
from headwater.pipeline.windows.windows import WalPass
from headwater.plugins.test_decoding.plugin import TestDecoding
from headwater.slots.kept_state import KeptState


def databases_of(kept_state: KeptState) -> list[DatabaseRow]:
    """Return the databases that the cluster has where a state of one of them is."""
    store = store_of(kept_state.state.catalog)
    lives = ((version, *store.fates.lifetime(version)) for version in store.tables[PG_DATABASE].all_versions())
    return store.rows.databases(version.data for version, born, died in lives if born < NEVER == died)


def created_state(request: DecodeRequest, database: DatabaseRow, lsn: int) -> KeptState:
    """Return the state of a database that the copy does not have.

    Args:
        request: of a database, over WAL from the copy on.
        database: its row; it has the name that it was created with.
        lsn: records that start before it are read.

    Raises:
        CatalogError: the WAL does not create it, or not as a whole.
        HeadwaterError: the WAL, or the copy, cannot be read.
    """
    asked = replace(
        request, database=None, plugin=TestDecoding.name, end=lsn, on_level_gap=SKIP_GAP, with_definitions=False
    )
    chosen = ChosenDatabases.open([asked], DatabaseChoice((database.name,)))
    threads = os.cpu_count() or 1
    index = partial(index_in_threads, threads=threads)
    windows = deque(WalPass(chosen.first, index, threads, WINDOW, new_plans=chosen.new_plans), 1)
    plan = next((plan for plan in chosen.plans if plan.database == database.oid), None)
    if plan is None:
        raise CatalogError(f'the WAL since the backup does not create database "{database.name}"')
    state = plan.state_behind(windows[0][plan].behind)
    return KeptState(replace(state, outputs=()), plan.opened.server_settings)
