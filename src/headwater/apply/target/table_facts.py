"""A table of the target, as its catalog has it: what the mapping of a relation to it depends on.

The fingerprint is read before all else. So a change between the two is noticed by the guard, later.

PostgreSQL: catalogs pg_class, pg_attribute, pg_index, pg_inherits, pg_opclass; 14 to 19. Default operators as of
commands/indexcmds.c (GetDefaultOpClass) and utils/cache/typcache.c (lookup_type_cache).
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.apply.target.connection import Bound, Row, Statement, TargetConnection
from headwater.receiver.replication_connection import quoted

_TABLE = """
SELECT c.oid, c.relkind::text, r.rolname, c.relrowsecurity, c.relforcerowsecurity, r.rolsuper OR r.rolbypassrls,
       c.relrowsecurity AND pg_catalog.row_security_active(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
WHERE n.nspname = $1 AND c.relname = $2
"""

_COLUMNS = """
WITH RECURSIVE columns AS (
    SELECT attnum, attname, atttypid, attgenerated, attidentity, attcollation FROM pg_catalog.pg_attribute
    WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped
), parts(attnum, typid, is_whole) AS (
    SELECT attnum, atttypid, true FROM columns
    UNION
    SELECT p.attnum, inner_type.typid, p.is_whole AND t.typtype = 'd'
    FROM parts p JOIN pg_catalog.pg_type t ON t.oid = p.typid CROSS JOIN LATERAL (
        SELECT t.typbasetype AS typid WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typelem <> 0 AND t.typlen = -1 AND t.typcategory = 'A'
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
        WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) inner_type
), equalities AS (
    SELECT p.attnum, p.is_whole, e.operator FROM parts p JOIN pg_catalog.pg_type t ON t.oid = p.typid
    LEFT JOIN LATERAL (
        SELECT pg_catalog.format('OPERATOR(%I.%s)', n.nspname, o.oprname) AS operator
        FROM pg_catalog.pg_opclass oc JOIN pg_catalog.pg_am am ON am.oid = oc.opcmethod
             JOIN pg_catalog.pg_amop ao ON ao.amopfamily = oc.opcfamily AND ao.amoplefttype = oc.opcintype
                  AND ao.amoprighttype = oc.opcintype
                  AND ao.amopstrategy = CASE am.amname WHEN 'btree' THEN 3 ELSE 1 END
             JOIN pg_catalog.pg_operator o ON o.oid = ao.amopopr
             JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
             JOIN pg_catalog.pg_type it ON it.oid = oc.opcintype
        WHERE oc.opcdefault AND am.amname IN ('btree', 'hash') AND (oc.opcintype = t.oid
              OR oc.opcintype = CASE WHEN t.typtype = 'e' THEN 3500 WHEN t.typtype = 'c' THEN 2249
                                     WHEN t.typtype = 'r' THEN 3831 WHEN t.typtype = 'm' THEN 4537
                                     WHEN t.typcategory = 'A' AND t.typlen = -1 AND t.typelem <> 0 THEN 2277 END
              OR EXISTS (SELECT FROM pg_catalog.pg_cast k WHERE k.castsource = t.oid AND k.casttarget = oc.opcintype
                         AND k.castmethod = 'b' AND k.castcontext = 'i'))
        ORDER BY am.amname, oc.opcintype = t.oid DESC, it.typispreferred DESC LIMIT 1
    ) e ON true
    WHERE t.typtype <> 'd'
)
SELECT c.attname, c.atttypid, c.attgenerated::text, c.attidentity::text,
       CASE WHEN (SELECT pg_catalog.bool_and(operator IS NOT NULL) FROM equalities e WHERE e.attnum = c.attnum)
            THEN (SELECT operator FROM equalities e WHERE e.attnum = c.attnum AND e.is_whole) END,
       (SELECT pg_catalog.format_type(p.typid, NULL) FROM parts p JOIN pg_catalog.pg_type t ON t.oid = p.typid
        WHERE p.attnum = c.attnum AND p.is_whole AND p.typid <> c.atttypid AND t.typtype <> 'd')
FROM columns c ORDER BY c.attnum
"""

_INDEX_COLUMNS = """
SELECT a.attname, CASE WHEN i.indcollation[k.number - 1] NOT IN (0, a.attcollation)
                       THEN pg_catalog.format('%I.%I', cn.nspname, co.collname) END,
       CASE WHEN am.amname = 'btree' THEN pg_catalog.format('OPERATOR(%I.%s)', n.nspname, o.oprname) END, i.indexrelid
FROM i CROSS JOIN LATERAL pg_catalog.unnest(i.indkey) WITH ORDINALITY k(attnum, number)
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
JOIN pg_catalog.pg_opclass oc ON oc.oid = i.indclass[k.number - 1]
JOIN pg_catalog.pg_am am ON am.oid = oc.opcmethod
LEFT JOIN pg_catalog.pg_amop ao ON ao.amopfamily = oc.opcfamily AND ao.amoplefttype = oc.opcintype
     AND ao.amoprighttype = oc.opcintype AND ao.amopstrategy = 3
LEFT JOIN pg_catalog.pg_operator o ON o.oid = ao.amopopr
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
LEFT JOIN pg_catalog.pg_collation co ON co.oid = i.indcollation[k.number - 1]
LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
WHERE k.number <= i.indnkeyatts ORDER BY i.indexrelid, k.number
"""

_KEY_INDEX = """
    SELECT i.* FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
    WHERE i.indrelid = $1::oid AND i.indisvalid AND i.indisunique AND i.indimmediate AND i.indpred IS NULL
          AND (i.indisprimary OR i.indisreplident AND c.relreplident = 'i')
    ORDER BY i.indisreplident AND c.relreplident = 'i' DESC LIMIT 1
"""
_KEY = f"WITH i AS ({_KEY_INDEX}) {_INDEX_COLUMNS}"
# Those that are not valid yet check what is inserted, too.
_FURTHER_UNIQUES = f"""
WITH key AS ({_KEY_INDEX}), i AS (
    SELECT i.* FROM pg_catalog.pg_index i
    WHERE i.indrelid = $1::oid AND i.indisunique AND i.indexprs IS NULL
          AND i.indexrelid NOT IN (SELECT indexrelid FROM key)
) {_INDEX_COLUMNS}
"""

_LEAVES = """
SELECT t.relid::oid, c.relkind::text, n.nspname, c.relname
FROM pg_catalog.pg_partition_tree($1::oid::regclass) t JOIN pg_catalog.pg_class c ON c.oid = t.relid
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.isleaf AND c.relkind <> 'p' ORDER BY t.relid::oid
"""

_ROUTING = """
SELECT a.attname FROM pg_catalog.pg_partition_tree($1::oid::regclass) t
     JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = t.relid
     CROSS JOIN LATERAL pg_catalog.unnest(p.partattrs) k(attnum)
     LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.attnum AND k.attnum > 0
"""

_OF_ONE = """
SELECT pg_catalog.concat_ws(' ', c.oid, n.nspname, c.relname, c.relkind, c.relowner, c.relrowsecurity,
    c.relforcerowsecurity, c.relreplident,
    (SELECT pg_catalog.string_agg(a.xmin::text, ',' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
     WHERE a.attrelid = c.oid AND a.attnum > 0),
    (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', i.indexrelid, i.indkey, i.indisvalid, i.indimmediate,
                                  i.indisreplident), ',' ORDER BY i.indexrelid)
     FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)))
"""
_OF_TABLE = f"""{_OF_ONE}
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = $1 AND n.nspname = $2
"""
# What is partitioned is told apart by its members: a plain table is the only one of its tree.
_OF_TREE = f"""
SELECT pg_catalog.string_agg(member.facts, ';' ORDER BY member.oid) FROM (
    {_OF_ONE} AS facts, c.oid
    FROM pg_catalog.pg_class root JOIN pg_catalog.pg_namespace root_space ON root_space.oid = root.relnamespace
         CROSS JOIN LATERAL pg_catalog.pg_partition_tree(root.oid::regclass) t
         JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE root.relname = $1 AND root_space.nspname = $2) member
"""


def _guard(fingerprint: str) -> Statement:
    return Statement(
        f"SELECT 1 / CASE WHEN ({fingerprint}) = $3 THEN 1 ELSE 0 END AS {quoted('the table is as it was')}",
        (25, 25, 25),
    )


_GUARD_TABLE, _GUARD_TREE = _guard(_OF_TABLE), _guard(_OF_TREE)


@dataclass(frozen=True)
class LocalColumn:
    """A column of a table.

    Attributes:
        name, type_oid: its own; is_generated, is_always: it is, or GENERATED ALWAYS AS IDENTITY.
        operator: its type's equality, None if there is none; base: the type that its domain is over, None for others.
    """

    name: str
    type_oid: int
    is_generated: bool
    is_always: bool
    operator: str | None
    base: str | None


@dataclass(frozen=True)
class KeyColumn:
    """A column of the index that identifies a row; see :class:`headwater.apply.target.lookup.LookupColumn`."""

    name: str
    collation: str | None
    operator: str | None


@dataclass(frozen=True)
class Leaf:
    """A partition that has rows."""

    oid: int
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class TableFacts:
    """The facts of a table.

    Attributes:
        oid: its own; kind: ``relkind``; owner: name of the role.
        has_row_security: row security is in force for the owner; is_secured: for the session's role.
        columns: those that are not dropped.
        guard: fails (22012) once the table is another one, or has changed.
    """

    oid: int
    kind: str
    owner: str
    has_row_security: bool
    is_secured: bool
    columns: tuple[LocalColumn, ...]
    guard: Bound


def table_facts(connection: TargetConnection, namespace: str, name: str) -> TableFacts | None:
    """Read the facts of a table; None if there is none of the name."""
    kinds = connection.rows(_TABLE, (namespace, name))
    if not kinds:
        return None
    guard = _guard_of(connection, namespace, name, is_tree=kinds[0][1] == "p")
    rows = connection.rows(_TABLE, (namespace, name))
    if not rows:
        return None
    ((oid, kind, owner, is_secured, is_forced, is_exempt, is_active),) = rows
    assert oid is not None
    assert kind is not None
    assert owner is not None
    in_force = "t" == is_secured == is_forced and is_exempt == "f"
    columns = tuple(map(_column, connection.rows(_COLUMNS, (oid,))))
    return TableFacts(int(oid), kind, owner, in_force, is_active == "t", columns, guard)


def key_of(connection: TargetConnection, oid: int) -> tuple[KeyColumn, ...]:
    """Read the columns of a table's replica identity index or else of its primary key."""
    rows = connection.rows(_KEY, (str(oid),))
    return tuple(KeyColumn(str(name), collation, operator) for name, collation, operator, _ in rows)


def further_uniques(connection: TargetConnection, oid: int) -> list[tuple[KeyColumn, ...]]:
    """Read the columns of a table's unique indexes, but for those over expressions and that of :func:`key_of`."""
    indexes: dict[str | None, tuple[KeyColumn, ...]] = {}
    for name, collation, operator, index in connection.rows(_FURTHER_UNIQUES, (str(oid),)):
        indexes[index] = (*indexes.get(index, ()), KeyColumn(str(name), collation, operator))
    return list(indexes.values())


def leaves_of(connection: TargetConnection, oid: int) -> tuple[Leaf, ...]:
    """Read the partitions of a table that have rows."""
    rows = connection.rows(_LEAVES, (str(oid),))
    return tuple(Leaf(int(str(leaf)), str(kind), str(space), str(name)) for leaf, kind, space, name in rows)


def routing_of(connection: TargetConnection, oid: int) -> frozenset[str] | None:
    """Read the names of the columns that a table and its partitions are partitioned by; None if by an expression."""
    names = [name for (name,) in connection.rows(_ROUTING, (str(oid),))]
    return None if None in names else frozenset(map(str, names))


def _column(row: Row) -> LocalColumn:
    name, type_oid, generated, identity, operator, base = row
    return LocalColumn(str(name), int(str(type_oid)), bool(generated), identity == "a", operator, base)


def _guard_of(connection: TargetConnection, namespace: str, name: str, *, is_tree: bool) -> Bound:
    fingerprint, statement = (_OF_TREE, _GUARD_TREE) if is_tree else (_OF_TABLE, _GUARD_TABLE)
    ((facts,),) = connection.rows(fingerprint, (name, namespace)) or [(None,)]
    return Bound(statement, (name.encode(), namespace.encode(), (facts or "").encode()))
