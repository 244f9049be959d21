"""The catalogs that decoding reads: their OIDs, and where each column lies in a row.

Job: turn the column lists of ``catalog_columns.txt`` into offsets. A catalog row begins with columns of
fixed length that are never NULL; these lie at the same offset in every row and are read with one ``struct`` call.
Mirrors ``catalog/pg_*.h`` (CATALOG macros and what genbki.pl makes of them).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

from headwater.pg.data_files import read_rows
from headwater.pg.version import VERSIONS

PG_TYPE, PG_ATTRIBUTE, PG_PROC, PG_CLASS = 1247, 1249, 1255, 1259
PG_DATABASE, PG_INDEX, PG_INHERITS, PG_NAMESPACE = 1262, 2610, 2611, 2615
PG_ENUM, PG_RANGE, PG_REPLICATION_ORIGIN = 3501, 3541, 6000
PG_PUBLICATION, PG_PUBLICATION_REL, PG_PUBLICATION_NAMESPACE = 6104, 6106, 6237

TOAST_OF_PUBLICATION_REL = 6228
"""The TOAST table that holds long row filters."""

PG_AUTHID, PG_OPERATOR, PG_COLLATION, PG_TS_CONFIG, PG_TS_DICT = 1260, 2617, 3456, 3602, 3600
"""Catalogs that are read for the names of objects to which values refer by OID."""

PG_TABLESPACE, PG_SEQUENCE, PG_AM, PG_ATTRDEF, PG_CONSTRAINT, PG_DEPEND = 1213, 2224, 2601, 2604, 2606, 2608
PG_DESCRIPTION, PG_OPCLASS, PG_REWRITE, PG_TRIGGER, PG_EXTENSION, PG_POLICY = 2609, 2616, 2618, 2620, 3079, 3256
PG_PARTITIONED_TABLE, PG_STATISTIC_EXT, PG_EVENT_TRIGGER = 3350, 3381, 3466
"""Catalogs that are read for the definitions of objects."""

HEAP_ACCESS_METHOD = 2
"""The access method, in ``pg_am``, of tables whose rows lie in heap pages."""

PG_DB_ROLE_SETTING = 2964
"""A catalog that is read once, as it is in a copy: settings of databases and roles."""

CATALOG_NAMES = {
    PG_TYPE: "pg_type",
    PG_ATTRIBUTE: "pg_attribute",
    PG_PROC: "pg_proc",
    PG_CLASS: "pg_class",
    PG_DATABASE: "pg_database",
    PG_INDEX: "pg_index",
    PG_INHERITS: "pg_inherits",
    PG_NAMESPACE: "pg_namespace",
    PG_ENUM: "pg_enum",
    PG_RANGE: "pg_range",
    PG_REPLICATION_ORIGIN: "pg_replication_origin",
    PG_PUBLICATION: "pg_publication",
    PG_PUBLICATION_REL: "pg_publication_rel",
    PG_PUBLICATION_NAMESPACE: "pg_publication_namespace",
    PG_AUTHID: "pg_authid",
    PG_OPERATOR: "pg_operator",
    PG_COLLATION: "pg_collation",
    PG_TS_CONFIG: "pg_ts_config",
    PG_TS_DICT: "pg_ts_dict",
    TOAST_OF_PUBLICATION_REL: "pg_toast_6106",
}
"""The catalogs that are read, by OID; not every major version has each."""

DEFINITION_CATALOGS = {
    PG_TABLESPACE: "pg_tablespace",
    PG_SEQUENCE: "pg_sequence",
    PG_AM: "pg_am",
    PG_ATTRDEF: "pg_attrdef",
    PG_CONSTRAINT: "pg_constraint",
    PG_DEPEND: "pg_depend",
    PG_DESCRIPTION: "pg_description",
    PG_OPCLASS: "pg_opclass",
    PG_REWRITE: "pg_rewrite",
    PG_TRIGGER: "pg_trigger",
    PG_EXTENSION: "pg_extension",
    PG_POLICY: "pg_policy",
    PG_PARTITIONED_TABLE: "pg_partitioned_table",
    PG_STATISTIC_EXT: "pg_statistic_ext",
    PG_EVENT_TRIGGER: "pg_event_trigger",
    2830: "pg_toast_2604",
    2832: "pg_toast_2606",
    2834: "pg_toast_2609",
    6351: "pg_toast_2610",
    4165: "pg_toast_3350",
}
"""Catalogs that are also read where definitions are asked for, and TOAST tables with long values of some."""

SHARED_CATALOGS = frozenset({PG_AUTHID, PG_DATABASE, PG_REPLICATION_ORIGIN, PG_TABLESPACE})
"""Catalogs that all databases share: their files lie in ``global``."""

DEFAULT_TABLESPACE, GLOBAL_TABLESPACE = 1663, 1664
PG_CATALOG_NAMESPACE = 11

FIRST_UNPINNED_OBJECT_ID = 12000
"""Relations with lower OIDs are the system catalogs, whose changes are no logical changes (access/transam.h)."""

FIRST_NORMAL_OBJECT_ID = 16384
"""The first OID and file number of a user's objects: lower ones are initdb's (access/transam.h)."""

F_ARRAY_SUBSCRIPT_HANDLER = 6179

INTERNAL_LANGUAGE, C_LANGUAGE = 12, 13
"""``prolang`` of functions of the server itself, and of a library (catalog/pg_language.dat)."""

_CODES = {1: "s", 2: "h", 4: "I", 8: "q"}
_ALIGN = {"c": 1, "s": 2, "i": 4, "d": 8}


def align_up(offset: int, attalign: str) -> int:
    """Round ``offset`` up to the alignment that ``attalign`` names (att_align_nominal, tupmacs.h)."""
    step = _ALIGN[attalign]
    return (offset + step - 1) & -step


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column of a catalog: its name, ``attlen`` and ``attalign``."""

    name: str
    length: int
    align: str


@dataclass(frozen=True)
class CatalogLayout:
    """The columns of one catalog in one major version.

    Attributes:
        oid: the catalog's OID.
        name: the catalog's name.
        columns: in attnum order.
        offsets: offsets of the fixed columns, in bytes from the row's ``t_hoff``.
        fixed_length: bytes that every row has at least after its ``t_hoff``.
    """

    oid: int
    name: str
    columns: tuple[CatalogColumn, ...]
    offsets: dict[str, int]
    fixed_length: int

    def reader(self, *names: str) -> struct.Struct:
        """Make a ``struct`` that reads some fixed columns, which must be given in their order in the row.

        Bytes of one character (``bool``, ``"char"``) and names come as ``bytes``, int2 signed, int4 and OIDs unsigned.
        """
        lengths = {column.name: column.length for column in self.columns}
        form, end = "<", 0
        for name in names:
            offset, length = self.offsets[name], lengths[name]
            form += f"{offset - end}x{_CODES.get(length, f'{length}s')}"
            end = offset + length
        return struct.Struct(form)

    def has(self, name: str) -> bool:
        """Tell whether this major version has the column."""
        return any(column.name == name for column in self.columns)

    def number(self, name: str) -> int:
        """Return the column's position, from 0; this major version has the column."""
        return [column.name for column in self.columns].index(name)


@cache
def catalog_oids(major: int, with_definitions: bool = False) -> frozenset[int]:
    """List the catalogs of a major: :data:`CATALOG_NAMES`, and :data:`DEFINITION_CATALOGS` if they are asked for.

    Where publications can have sequences, ``pg_sequence`` is among them in any case.
    """
    names = {**CATALOG_NAMES, **DEFINITION_CATALOGS} if with_definitions else dict(CATALOG_NAMES)
    if VERSIONS[major].publishes_sequences:
        names[PG_SEQUENCE] = DEFINITION_CATALOGS[PG_SEQUENCE]
    return frozenset(oid for oid, name in names.items() if name in _columns(major))


def catalog_name(oid: int) -> str:
    """Return the name of a catalog of :func:`catalog_oids`."""
    return CATALOG_NAMES.get(oid) or DEFINITION_CATALOGS[oid]


@cache
def _columns(major: int) -> dict[str, list[str]]:
    """Read the columns of each catalog, as ``catalog_columns.txt`` writes them."""
    return {name: columns for name, *columns in read_rows("catalog_columns.txt", major)}


@cache
def catalog_layout(major: int, oid: int) -> CatalogLayout:
    """Return the layout of a catalog of :func:`catalog_oids`, with definitions.

    Args:
        major: PostgreSQL's major version.
        oid: the catalog's OID.
    """
    name = catalog_name(oid)
    columns, offsets, end, is_fixed = [], {}, 0, True
    for word in _columns(major)[name]:
        column, length, align, *null = word.split(":")
        columns.append(CatalogColumn(column, int(length), align))
        is_fixed = is_fixed and not null and int(length) > 0
        if is_fixed:
            offsets[column] = align_up(end, align)
            end = offsets[column] + int(length)
    return CatalogLayout(oid, name, tuple(columns), offsets, end)
