"""A slot that is asked piece by piece, each answer kept; and a window cut into pieces where records end.

What a later call says depends on what the slot remembers, not on what the client does: so a reader that carries its
state from piece to piece is compared with the server call by call. Each call is a session of its own to a plugin.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from numpy.typing import NDArray

from headwater.wal.records.frames import read_frames
from headwater.wal.segments.directory import WalDirectory
from oracle.streams import PluginStop, call_slot, format_lsn, parse_lsn

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Call:
    """One call of ``pg_logical_slot_get_binary_changes``.

    Attributes:
        start: the slot's ``confirmed_flush_lsn`` before it: transactions that committed earlier are not in its answer.
        end: its ``upto_lsn``.
        messages: lsn, xid and data in order.
        confirmed: the slot's ``confirmed_flush_lsn`` after it.
        restart: the slot's ``restart_lsn`` after it.
        error: with which the plugin stopped, None if it did not; then there are no messages and nothing moved on.
    """

    start: int
    end: int
    messages: pa.Table
    confirmed: int
    restart: int
    error: PluginStop | None = None


def record_ends(wal: str | os.PathLike[str], lo: int | None = None, hi: int | None = None) -> Int64s:
    """Find where the records of a directory end: int64[n], rising; each is what the server calls ``EndRecPtr``.

    Args:
        wal: a ``pg_wal`` directory, of a server that may be running.
        lo: records that start here or later; by default all.
        hi: records that end here or before; by default all.
    """
    directory = WalDirectory.scan(wal)
    ends = read_frames(directory, directory.start_lsn if lo is None else lo, hi).end_lsns
    return ends if hi is None else ends[ends <= hi]


def cut(ends: Int64s, lo: int, hi: int, pieces: int, seed: int) -> tuple[int, ...]:
    """Choose the ends of that many pieces of ``(lo, hi]``, at random ends of records; the last is ``hi``.

    Args:
        ends: ends of records, in order.
        lo, hi: the window.
        pieces: 1 or more; fewer come out where there are fewer records.
        seed: decides where.
    """
    inside = ends[(ends > lo) & (ends < hi)].tolist()
    picked = random.Random(f"cut {seed}").sample(inside, min(pieces - 1, len(inside)))
    return (*sorted(picked), hi)


def get_piecewise(
    connection: psycopg.Connection[Any], slot: str, options: Sequence[tuple[str, str]], ends: Iterable[int]
) -> tuple[Call, ...]:
    """Take a slot's changes up to one end after the other; the slot moves on with each call.

    Args:
        connection: to the slot's database.
        slot: a logical slot that is not in use, made before what it is asked for.
        options: the plugin's.
        ends: rising; where there is no more WAL, the server takes what there is.
    """
    calls = []
    for end in ends:
        start, _ = _positions(connection, slot)
        messages, error = call_slot(connection, "pg_logical_slot_get_binary_changes", slot, end, options)
        calls.append(Call(start, end, messages, *_positions(connection, slot), error))
    return tuple(calls)


def peek_between(
    connection: psycopg.Connection[Any], slot: str, options: Sequence[tuple[str, str]], lo: int, hi: int
) -> Call:
    """Ask what a slot says of ``(lo, hi]``, had it moved on to ``lo`` without a session; the slot stays where it is.

    Args:
        connection: to the slot's database.
        slot: a logical slot that is not in use and stands at ``lo`` or before.
        options: the plugin's.
        lo, hi: ends of records.
    """
    copied = f"{slot}_copy"
    connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s, false)", [slot, copied])
    try:
        if _positions(connection, copied)[0] < lo:
            connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [copied, format_lsn(lo)])
        start, restart = _positions(connection, copied)
        messages, error = call_slot(connection, "pg_logical_slot_peek_binary_changes", copied, hi, options)
        return Call(start, hi, messages, start, restart, error)
    finally:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [copied])


def _positions(connection: psycopg.Connection[Any], slot: str) -> tuple[int, int]:
    """Read a slot's confirmed and restart LSN."""
    query = "SELECT confirmed_flush_lsn, restart_lsn FROM pg_replication_slots WHERE slot_name = %s"
    row = connection.execute(query, [slot], binary=False).fetchone()
    assert row is not None
    confirmed, restart = (parse_lsn(text) for text in row)
    return confirmed, restart
