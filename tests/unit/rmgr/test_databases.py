"""An index of several databases, split, is what each database's own index is."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headwater.rmgr.index.index_rows import Ragged, Table
from headwater.rmgr.index.wal_index import Request, build_index
from unit.rmgr import plain_records as plain

DATABASES = (5, 6, 7)
CATALOGS = tuple((plain.SPC, database, 1259) for database in DATABASES)
FIRST_XIDS = dict(zip((*DATABASES, 8), (10, 20, 30, 40), strict=True))


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Draw a record of a transaction, which is of one database."""
    database = draw(st.sampled_from([*FIRST_XIDS]))
    xid, file = FIRST_XIDS[database] + draw(st.integers(0, 3)), draw(st.sampled_from([1259, 20000, 20001]))
    kind: Any = draw(
        st.sampled_from([plain.insert, plain.delete, plain.create_file, "cid", "truncate", "message", "end"])
    )
    if kind == "cid":
        return plain.new_cid(xid, 1, database=draw(st.sampled_from([database, 0])))
    if kind == "truncate":
        return plain.truncate(xid, [1, 2], database=database)
    if kind == "message":
        return plain.message(xid, b"said", of=database)
    if kind == "end":
        return plain.commit(xid)
    made: bytes = kind(xid, file, database=database)
    return made


@settings(deadline=None, max_examples=150)
@given(st.lists(records(), min_size=1, max_size=60))
def test_a_split_index_is_what_each_database_has_alone(made: list[bytes]) -> None:
    frames = plain.frames(made)
    lo, hi = int(frames.lsns[0]), int(frames.end_lsns[-1])
    together = build_index(frames, lo, hi, Request(DATABASES, CATALOGS, 16))
    for database, catalog in zip(DATABASES, CATALOGS, strict=True):
        own, alone = together.of_database(database), build_index(frames, lo, hi, Request((database,), (catalog,), 16))
        assert own.databases is None
        for name, table in alone.rows.tables():
            assert _listed(getattr(own.rows, name), own.rows.locators) == _listed(table, alone.rows.locators), name
        assert [*own.kept] == [*alone.kept]
        assert {tuple(file) for file in own.rows.locators.tolist()} <= {*map(tuple, alone.rows.locators.tolist())}


def test_an_index_of_one_database_is_not_split() -> None:
    frames = plain.frames([plain.insert(10, 20000)])
    wal_index = build_index(frames, 0, 1 << 20, Request((5,), (), 16))
    assert wal_index.of_database(5) is wal_index


def _listed(table: Table, locators: NDArray[np.int64]) -> list[list[str]]:
    columns = [(field.name, getattr(table, field.name)) for field in fields(table)]
    shown = [
        [tuple(locators[file]) for file in column]
        if name == "locator"
        else [column.starts.tolist(), column.values.tolist()]
        if isinstance(column, Ragged)
        else column.tolist()
        for name, column in columns
    ]
    return [list(map(str, column)) for column in shown]
