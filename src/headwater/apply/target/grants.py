"""Functions that a role has to be allowed to execute, to apply without being a superuser."""

from __future__ import annotations

FUNCTIONS = (
    "pg_replication_origin_oid",
    "pg_replication_origin_create",
    "pg_replication_origin_drop",
    "pg_replication_origin_session_setup",
    "pg_replication_origin_session_reset",
    "pg_replication_origin_progress",
    "pg_replication_origin_advance",
    "pg_replication_origin_xact_setup",
)
"""What the role has to be allowed to execute, unless it is a superuser; without arguments, which differ by major."""
