"""Questions about a statement's objects, and about names that lead to code of users while it is parsed.

A text in a statement becomes a value of its type when the statement is parsed, which runs the type's input function.
There are types whose input runs what users have made:

- arrays, rows and ranges of a domain with a condition of users,
- ranges with a function or an order of users,
- types of a library that is named by its path.

Where there are such types, a statement that has a name which may lead to one of them is not even parsed.

All questions name everything with its schema, so that nothing of users comes in between.

PostgreSQL: parse_coerce.c (coerce_type), domains.c (domain_in), rangetypes.c (range_in).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.protocol.backend_messages import Value
from headwater.walsender.catalog_server.function_rules import Facts, FunctionFacts
from headwater.walsender.catalog_server.statement_tree import StatementTree

Ask = Callable[[str, Sequence[str]], list[tuple[Value, ...]]]

_FUNCTIONS = """
SELECT p.oid, p.proname, p.provolatile, p.prokind, p.prosecdef, p.prolang, p.proargtypes
FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])
"""
_OF_USERS = """
WITH RECURSIVE
given (oid) AS (SELECT pg_catalog.unnest($1::pg_catalog.oid[])),
part (oid) AS (
    SELECT given.oid FROM given
    UNION
    SELECT inner_type.oid FROM part, LATERAL (
        SELECT t.typelem FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) part.oid
        UNION ALL SELECT t.typbasetype FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) part.oid
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_type t JOIN pg_catalog.pg_attribute a
            ON a.attrelid OPERATOR(pg_catalog.=) t.typrelid AND NOT a.attisdropped
            WHERE t.oid OPERATOR(pg_catalog.=) part.oid AND t.typrelid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid OPERATOR(pg_catalog.=) part.oid
        UNION ALL SELECT r.rngtypid FROM pg_catalog.pg_range r WHERE r.rngmultitypid OPERATOR(pg_catalog.=) part.oid
    ) AS inner_type (oid) WHERE inner_type.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid
)
SELECT part.oid FROM part LEFT JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) part.oid
WHERE t.oid IS NULL OR {condition}
"""
_HAS_CONDITION = """
(t.typtype OPERATOR(pg_catalog.=) 'd'::pg_catalog."char" AND EXISTS (
    SELECT 1 FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_depend d
    ON d.classid OPERATOR(pg_catalog.=) 2606::pg_catalog.oid AND d.objid OPERATOR(pg_catalog.=) c.oid
    WHERE c.contypid OPERATOR(pg_catalog.=) t.oid AND d.refobjid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid
    AND d.refobjid OPERATOR(pg_catalog.<>) t.oid AND d.refclassid OPERATOR(pg_catalog.<>) 3456::pg_catalog.oid))
OR EXISTS (
    SELECT 1 FROM pg_catalog.pg_range r WHERE r.rngtypid OPERATOR(pg_catalog.=) t.oid AND (
        r.rngcanonical::pg_catalog.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid
        OR r.rngsubtype OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid
        OR r.rngsubopc OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid))
"""
_IS_BASE = """
t.typtype OPERATOR(pg_catalog.=) 'p'::pg_catalog."char"
OR (t.typtype OPERATOR(pg_catalog.=) 'b'::pg_catalog."char"
    AND t.typinput::pg_catalog.oid OPERATOR(pg_catalog.<>) 750::pg_catalog.oid)
"""
_NAMES_A_FILE = """
(t.typtype OPERATOR(pg_catalog.=) 'b'::pg_catalog."char" AND EXISTS (
    SELECT 1 FROM pg_catalog.pg_proc p
    WHERE p.oid OPERATOR(pg_catalog.=) ANY (ARRAY[t.typinput::pg_catalog.oid, t.typmodin::pg_catalog.oid])
    AND p.probin OPERATOR(pg_catalog.~) '/'::pg_catalog.text
    AND p.probin OPERATOR(pg_catalog.!~) '^[$]libdir/[^/]+$'::pg_catalog.text))
"""
_OPEN_TYPES = _OF_USERS.replace("{condition}", f"{_HAS_CONDITION} OR {_IS_BASE}")
_OPEN_AT_ONCE = f"""
SELECT t.oid FROM pg_catalog.pg_type t
WHERE t.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid AND ({_HAS_CONDITION} OR {_NAMES_A_FILE})
"""
_LEADING = """
WITH RECURSIVE open (oid) AS (
    SELECT pg_catalog.unnest($1::pg_catalog.oid[])
    UNION
    SELECT outer_type.oid FROM open, LATERAL (
        SELECT t.oid FROM pg_catalog.pg_type t WHERE t.typelem OPERATOR(pg_catalog.=) open.oid
        OR t.typbasetype OPERATOR(pg_catalog.=) open.oid
        UNION ALL SELECT t.oid FROM pg_catalog.pg_attribute a
            JOIN pg_catalog.pg_type t ON t.typrelid OPERATOR(pg_catalog.=) a.attrelid
            WHERE a.atttypid OPERATOR(pg_catalog.=) open.oid
        UNION ALL SELECT r.rngtypid FROM pg_catalog.pg_range r WHERE r.rngsubtype OPERATOR(pg_catalog.=) open.oid
        UNION ALL SELECT r.rngmultitypid FROM pg_catalog.pg_range r WHERE r.rngtypid OPERATOR(pg_catalog.=) open.oid
    ) AS outer_type (oid)
), opened (oids) AS (SELECT pg_catalog.array_agg(open.oid) FROM open)
SELECT t.typname FROM open JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) open.oid
UNION ALL SELECT p.proname FROM opened, pg_catalog.pg_proc p
    WHERE p.prorettype OPERATOR(pg_catalog.=) ANY (opened.oids) OR pg_catalog.array_append(
        coalesce(p.proallargtypes, p.proargtypes::pg_catalog.oid[]), p.provariadic)
        OPERATOR(pg_catalog.&&) opened.oids
UNION ALL SELECT o.oprname FROM opened, pg_catalog.pg_operator o
    WHERE o.oprleft OPERATOR(pg_catalog.=) ANY (opened.oids) OR o.oprright OPERATOR(pg_catalog.=) ANY (opened.oids)
"""
_TABLES = """
SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])
AND c.relkind OPERATOR(pg_catalog.<>) 'v'::pg_catalog."char"
"""
_ANY_IN_ROWS = """
SELECT 1 FROM pg_catalog.pg_type t JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) t.typrelid
WHERE t.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])
AND a.atttypid OPERATOR(pg_catalog.=) 2277::pg_catalog.oid
"""

_WORD = re.compile(r'"((?:[^"]|"")+)"|([^\W\d][\w$]*)')
_UNICODE = re.compile(r'U&"', re.I)
_MOST_NAME = 63
_WORDS_OF_OPERATORS = frozenset(("=", "<>", "<", ">", "<=", ">=", "~~", "~~*", "!~~", "!~~*", "~", "!~"))
"""Operators that stand for words: LIKE, IN, BETWEEN, SIMILAR TO, USING."""


@dataclass(frozen=True)
class LeadingNames:
    """Names that may lead to a type whose input runs code of users; empty where there is no such type."""

    names: frozenset[str] = frozenset()

    def are_in(self, sql: str) -> bool:
        """Tell whether a statement has one of them, wherever it is."""
        if not self.names:
            return False
        words = {name for pair in _WORD.findall(sql) for name in _spellings(*pair)}
        is_seen = not self.names.isdisjoint(words) or not self.names.isdisjoint(_WORDS_OF_OPERATORS)
        return is_seen or _UNICODE.search(sql) is not None or any(name in sql for name in self.names if _is_sign(name))


def leading_names(ask: Ask) -> LeadingNames:
    """Ask which names may lead to code of users."""
    open_types = _oids(ask(_OPEN_AT_ONCE, ()))
    if not open_types:
        return LeadingNames()
    return LeadingNames(frozenset(_text(name) for (name,) in ask(_LEADING, (_array(open_types),))))


def facts_of(tree: StatementTree, ask: Ask) -> Facts:
    """Ask what the catalogs say of a statement's objects."""
    rows = ask(_FUNCTIONS, (_array(tree.functions),)) if tree.functions else []
    has_open_types = bool(tree.types) and bool(ask(_OPEN_TYPES, (_array(tree.types),)))
    reads_any = tree.has_any_array or bool(tree.types)
    reads_any = reads_any or (bool(tree.rows) and bool(ask(_ANY_IN_ROWS, (_array(tree.rows),))))
    functions = tuple(map(_function, rows))
    return Facts(functions, has_open_types, reads_any, len(functions) < len(tree.functions))


def names_table(tree: StatementTree, ask: Ask) -> bool:
    """Tell whether a statement reads a relation of users that is no view."""
    of_users = [oid for oid in tree.relations if oid >= FIRST_NORMAL_OBJECT_ID]
    return bool(of_users) and bool(ask(_TABLES, (_array(of_users),)))


def _function(row: Sequence[Value]) -> FunctionFacts:
    oid, name, volatility, kind, runs_as_owner, language, arguments = map(_text, row)
    return FunctionFacts(
        int(oid), name, volatility, kind, runs_as_owner == "t", int(language), tuple(map(int, arguments.split()))
    )


def _oids(rows: Iterable[Sequence[Value]]) -> list[int]:
    return [int(row[0] or 0) for row in rows]


def _text(value: Value) -> str:
    return (value or b"").decode("utf-8", "surrogateescape")


def _array(oids: Iterable[int]) -> str:
    return "{" + ",".join(map(str, sorted(oids))) + "}"


def _spellings(quoted: str, plain: str) -> set[str]:
    """Return the names that a word may stand for: a long one is cut."""
    names = {quoted.replace('""', '"')} if quoted else {plain, plain.lower()}
    cut = {name.encode("utf-8", "surrogateescape")[:_MOST_NAME].decode("utf-8", "ignore") for name in names}
    return names | cut


def _is_sign(name: str) -> bool:
    return _WORD.fullmatch(name) is None
