"""Statements of random workloads as an older server takes them: the one place that knows what 14 has not.

Publications of 14 have neither schemas nor lists of columns: a schema becomes the table that each has, lists are left
out. There is no MERGE.
"""

from __future__ import annotations

import re

_PUBLICATION = re.compile(r"(?:CREATE|ALTER) PUBLICATION ")
_SCHEMAS = re.compile(r"TABLES IN SCHEMA ((?:\w+, )*\w+)")
_COLUMNS = re.compile(r'(?<!WITH)(?<!SET) \((?:[^()"]|"[^"]*")*\)')
_TABLES = {"s": "base", "aside": "thing"}


def as_server_takes(statement: str, major: int) -> str:
    """Return the statement, or what comes next to it on a server that does not have it.

    Args:
        statement: of a workload.
        major: PostgreSQL's major version.
    """
    if major >= 15:
        return statement
    if _PUBLICATION.match(statement):
        without_lists = _COLUMNS.sub("", statement)
        return _SCHEMAS.sub(_tables, without_lists).replace(", TABLE ", ", ")
    if statement.startswith("MERGE INTO "):
        return "SELECT 1"
    return statement.replace("pg_publication_namespace", "pg_publication_rel")


def _tables(schemas: re.Match[str]) -> str:
    names = schemas[1].split(", ")
    return "TABLE " + ", ".join(f"{name}.{_TABLES['aside' if name.startswith('aside') else 's']}" for name in names)
