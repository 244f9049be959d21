"""The tables of the target for changes that are not applied: dead letters, and what is kept of paused tables."""

from __future__ import annotations

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS headwater.dead_letters (
        id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        subname text NOT NULL,
        nspname text NOT NULL,
        relname text NOT NULL,
        kind text NOT NULL CHECK (kind IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')),
        old_tuple jsonb,
        old_is_key bool,
        new_tuple jsonb,
        restart_seqs bool,
        sqlstate text,
        message text,
        detail text,
        remote_xid int8 NOT NULL,
        finish_lsn pg_lsn NOT NULL,
        commit_time timestamptz,
        place int8 NOT NULL,
        relation jsonb NOT NULL,
        is_of_pause bool NOT NULL,
        added_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS headwater.paused_tables (
        subname text NOT NULL,
        nspname text NOT NULL,
        relname text NOT NULL,
        sqlstate text,
        message text,
        finish_lsn pg_lsn,
        paused_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
        PRIMARY KEY (subname, nspname, relname)
    )
    """,
)
"""What the schema ``headwater`` needs for it."""
