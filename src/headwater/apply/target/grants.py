"""Functions that a role has to be allowed to execute, to apply without being a superuser."""

from __future__ import annotations

FUNCTIONS = (
    "pg_replication_origin_oid(text)",
    "pg_replication_origin_create(text)",
    "pg_replication_origin_drop(text)",
    "pg_replication_origin_session_setup(text)",
    "pg_replication_origin_session_reset()",
    "pg_replication_origin_progress(text, boolean)",
    "pg_replication_origin_advance(text, pg_lsn)",
    "pg_replication_origin_xact_setup(pg_lsn, timestamptz)",
)
"""What the role has to be allowed to execute, unless it is a superuser."""
