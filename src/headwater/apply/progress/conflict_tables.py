"""Tables of the schema ``headwater`` for conflicts: counts, origins of copies that are over, conflicts themselves.

PostgreSQL: the view pg_stat_subscription_stats of 18 and 19, whose columns the view here has.
"""

from __future__ import annotations

_KINDS = (
    "insert_exists",
    "update_origin_differs",
    "update_exists",
    "update_deleted",
    "update_missing",
    "delete_origin_differs",
    "delete_missing",
    "multiple_unique_conflicts",
)
_COUNTS = ",\n".join(f"confl_{kind} int8 NOT NULL DEFAULT 0" for kind in _KINDS)
_SHOWN = ", ".join(f"coalesce(t.confl_{kind}, 0) AS confl_{kind}" for kind in _KINDS)

STATEMENTS = (
    f"""
    CREATE TABLE IF NOT EXISTS headwater.subscription_stats (
        subname text PRIMARY KEY,
        apply_error_count int8 NOT NULL DEFAULT 0,
        sync_error_count int8 NOT NULL DEFAULT 0,
        {_COUNTS},
        stats_reset timestamptz
    )
    """,
    f"""
    CREATE OR REPLACE VIEW headwater.stat_subscription_stats AS
    SELECT s.subid, subname, coalesce(t.apply_error_count, 0) AS apply_error_count,
           coalesce(t.sync_error_count, 0) AS sync_error_count, {_SHOWN}, t.stats_reset
    FROM headwater.subscription s FULL JOIN headwater.subscription_stats t USING (subname)
    """,
    """
    CREATE TABLE IF NOT EXISTS headwater.subscription_origin (
        subname text NOT NULL,
        roident oid NOT NULL,
        used_until timestamptz NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS headwater.subscription_node (
        subname text PRIMARY KEY,
        node text NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS headwater.conflicts (
        id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        detected_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
        subname text NOT NULL,
        nspname text NOT NULL,
        relname text NOT NULL,
        kind text NOT NULL,
        resolution text NOT NULL,
        key jsonb,
        local_row jsonb,
        remote_row jsonb,
        local_origin text,
        local_xid xid,
        local_commit_time timestamptz,
        remote_xid xid NOT NULL,
        remote_commit_lsn pg_lsn,
        remote_commit_time timestamptz
    )
    """,
)
