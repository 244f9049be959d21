"""A server's texts of OIDs of objects, to compare the names of :mod:`headwater.catalog.object_names` with."""

from __future__ import annotations

from typing import Any

NAMES = {
    24: ("pg_proc", "oid::regproc::text"),
    1033: ("pg_authid", "split_part(makeaclitem(oid, 10, 'SELECT', false)::text, '=', 1)"),
    2202: ("pg_proc", "oid::regprocedure::text"),
    2203: ("pg_operator", "oid::regoper::text"),
    2204: ("pg_operator", "oid::regoperator::text"),
    2205: ("pg_class", "oid::regclass::text"),
    2206: ("pg_type", "oid::regtype::text"),
    3734: ("pg_ts_config", "oid::regconfig::text"),
    3769: ("pg_ts_dict", "oid::regdictionary::text"),
    4089: ("pg_namespace", "oid::regnamespace::text"),
    4096: ("pg_authid", "oid::regrole::text"),
    4191: ("pg_collation", "oid::regcollation::text"),
    6490: ("pg_database", "oid::regdatabase::text"),
}
"""By type: the catalog of all its objects, and what the server prints of one; regdatabase is new in 19."""


def names_of_objects(connection: Any, type_oid: int) -> dict[int, str]:
    """Return every object that a value of the type can name, and its text; 0 stands for none."""
    catalog, text = NAMES[type_oid]
    rows = connection.execute(f"select oid::int8, {text} from pg_catalog.{catalog}".encode()).fetchall()
    nothing = {} if type_oid == 1033 else {0: "0" if catalog == "pg_operator" else "-"}
    return nothing | dict(rows)
