"""Every type in every nesting, as tables: what makes them on a server, and what the server says that they hold.

A :class:`Kind` is a type: a scalar one, or one that is made of others. It says its name in SQL, values of it, and how
the server shows a value as JSON of texts, lists and objects. Of one that has landed :func:`plain` makes the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A type.

    Attributes:
        name: in SQL.
        values: expressions of SQL, the first two ascending; nulls inside and empty ones behind them.
        has_order: it can be in a range, or in a key.
    """

    name: str
    values: tuple[str, ...]
    has_order: bool

    def shown(self, value: str) -> str:
        """Show a value as JSON, by an expression of SQL."""
        return f"CASE WHEN num_nonnulls({value}) = 1 THEN to_json(format('%s', {value})) END"

    @property
    def made_by(self) -> list[str]:
        """The statements that make it, and those that make what it is made of."""
        return []


@dataclass(frozen=True)
class Interval(Kind):
    """A structure in the lake."""

    def shown(self, value: str) -> str:
        parts = {
            "months": f"extract(year FROM {value}) * 12 + extract(month FROM {value})",
            "days": f"extract(day FROM {value})",
            "microseconds": f"(extract(epoch FROM {value} - date_trunc('day', {value})) * 1000000)::bigint",
        }
        return _object({name: f"(({part})::bigint)::text" for name, part in parts.items()}, value)


@dataclass(frozen=True)
class Domain(Kind):
    """Over another kind."""

    of: Kind

    def shown(self, value: str) -> str:
        return self.of.shown(value)

    @property
    def made_by(self) -> list[str]:
        return [*self.of.made_by, f"CREATE DOMAIN {self.name} AS {self.of.name}"]


@dataclass(frozen=True)
class Array(Kind):
    """Of another kind."""

    of: Kind

    def shown(self, value: str) -> str:
        item = f"i{value.count('[i')}"
        inner = self.of.shown(f"({value})[{item}]")
        items = f"SELECT json_agg({inner} ORDER BY {item}) FROM generate_subscripts({value}, 1) {item}"
        return f"CASE WHEN num_nonnulls({value}) = 1 THEN coalesce(({items}), '[]') END"

    @property
    def made_by(self) -> list[str]:
        return self.of.made_by


@dataclass(frozen=True)
class Composite(Kind):
    """A type with an attribute of each of other kinds."""

    of: tuple[Kind, ...]

    def shown(self, value: str) -> str:
        return _object({f"a{at}": kind.shown(f"({value}).a{at}") for at, kind in enumerate(self.of)}, value)

    @property
    def made_by(self) -> list[str]:
        attributes = ", ".join(f"a{at} {kind.name}" for at, kind in enumerate(self.of))
        return [*(made for kind in self.of for made in kind.made_by), f"CREATE TYPE {self.name} AS ({attributes})"]


@dataclass(frozen=True)
class Range(Kind):
    """Over another kind; its multirange is made with it."""

    of: Kind

    def shown(self, value: str) -> str:
        bounds = {side: self.of.shown(f"{side}({value})") for side in ("lower", "upper")}
        flags = {name: f"format('%s', {name}({value}))" for name in ("lower_inc", "upper_inc", "isempty")}
        return _object(bounds | flags, value)

    @property
    def made_by(self) -> list[str]:
        more = f"multirange_type_name = {self.name}_m"
        return [*self.of.made_by, f"CREATE TYPE {self.name} AS RANGE (subtype = {self.of.name}, {more})"]


@dataclass(frozen=True)
class Multirange(Kind):
    """Of ranges."""

    of: Range

    def shown(self, value: str) -> str:
        items = f"SELECT json_agg({self.of.shown('r')} ORDER BY o) FROM unnest({value}) WITH ORDINALITY AS u(r, o)"
        return f"CASE WHEN num_nonnulls({value}) = 1 THEN coalesce(({items}), '[]') END"

    @property
    def made_by(self) -> list[str]:
        return self.of.made_by


def _object(parts: dict[str, str], value: str) -> str:
    fields = ", ".join(f"'{name}', {part}" for name, part in parts.items())
    return f"CASE WHEN num_nonnulls({value}) = 1 THEN json_build_object({fields}) END"


def _scalar(name: str, *values: str, has_order: bool = True) -> Kind:
    return Kind(name, tuple(f"'{value}'::{name}" for value in values), has_order)


TEXT = _scalar("text", "a", "b")
UUID = _scalar("uuid", "00000000-0000-0000-0000-00000000000a", "ffffffff-0000-4000-8000-000000000000")
SCALARS = (
    UUID,
    TEXT,
    _scalar("boolean", "false", "true"),
    _scalar("smallint", "-7", "32767"),
    _scalar("integer", "-7", "2147483647"),
    _scalar("bigint", "-7", "9223372036854775807"),
    _scalar("real", "-1.5", "2.25"),
    _scalar("double precision", "-1.5", "1.25e-07"),
    _scalar("numeric(10,2)", "-1.50", "12345678.90"),
    _scalar("numeric", "-1.500", "123456789012345678901234567890123456789012345.5"),
    _scalar("oid", "7", "4294967295"),
    _scalar("date", "2024-02-29", "9999-12-31"),
    _scalar("time", "01:02:03.000004", "23:59:59.999999"),
    _scalar("time with time zone", "01:02:03+01", "23:59:59-02"),
    _scalar("timestamp", "0001-01-01 00:00:00", "2024-02-03 04:05:06.000007"),
    _scalar("timestamptz", "1969-12-31 23:59:59.999999+00", "2024-02-03 04:05:06.000007+00"),
    Interval("interval", ("'-3 days'::interval", "'1 year 2 mons 3 days 04:00:00.000005'::interval"), True),
    _scalar("bytea", r"\x", r"\x00ff"),
    _scalar("varchar(9)", "", "é"),
    _scalar("character(4)", "a", "b"),
    _scalar("name", "a", "b"),
    Kind('"char"', ("""'a'::"char\"""", """'b'::"char\""""), True),
    _scalar("jsonb", "null", '{"a": [1, null]}'),
    _scalar("json", "null", '{"a":  1}', has_order=False),
    _scalar("inet", "10.0.0.2/8", "10.0.0.1"),
    _scalar("macaddr", "08:00:2b:01:02:03", "08:00:2b:01:02:04"),
    _scalar("bit(3)", "010", "101"),
    _scalar("varbit", "0", "1011"),
    _scalar("money", "-1.50", "2.25"),
    _scalar("point", "(1,2)", "(1.5,-2)", has_order=False),
    Kind("tsvector", ("'a:1'::tsvector", "'b:2'::tsvector"), True),
    _scalar("pg_lsn", "0/1", "16/B374D848"),
    _scalar("xid8", "7", "18446744073709551615"),
    Kind("mood", ("'calm'::mood", "'glad'::mood"), True),
)
"""Those of the server's own that are apart from each other in some form, text or typed, and an enum."""

ENUM = "CREATE TYPE mood AS ENUM ('calm', 'glad')"
_WORDS = str.maketrans({" ": "_", "(": "_", ")": "", ",": "_", '"': "", "[": "_", "]": ""})


def _called(prefix: str, kind: Kind) -> str:
    return f"{prefix}_{kind.name.translate(_WORDS)}"


def domain_over(kind: Kind) -> Domain:
    """Make a domain with the values of a kind."""
    name = _called("d", kind)
    return Domain(name, tuple(f"({value})::{name}" for value in kind.values), kind.has_order, kind)


def array_of(kind: Kind) -> Array:
    """Make arrays: of both values, with a null, empty."""
    name = f"{kind.name}[]"
    first, second, *more = kind.values
    items: tuple[list[str], ...] = [first], [second, first], [first, "NULL", second, *more], []
    return Array(name, tuple(f"ARRAY[{', '.join(elements)}]::{name}" for elements in items), kind.has_order, kind)


def composite_of(kinds: Sequence[Kind], name: str) -> Composite:
    """Make a composite: of first values, of second ones, of nulls, of what else there is."""
    rows = ([kind.values[at] if at < len(kind.values) else "NULL" for kind in kinds] for at in (0, 1, 9, 2))
    values = tuple(f"ROW({', '.join(row)})::{name}" for row in rows)
    return Composite(name, values, all(kind.has_order for kind in kinds), tuple(kinds))


def range_over(kind: Kind) -> Range:
    """Make ranges: closed, open, without bounds, empty."""
    name = _called("r", kind)
    first, second = kind.values[:2]
    made = (f"{first}, {second}, '[]'", f"{first}, {second}, '()'", f"NULL, {second}", "NULL, NULL")
    values = (*(f"{name}({bounds})" for bounds in made), f"'empty'::{name}")
    return Range(name, values, True, kind)


def multirange_of(range: Range) -> Multirange:
    """Make multiranges: of a range, of another one, of none."""
    name = f"{range.name}_m"
    values = (f"{name}({range.values[0]})", f"{name}({range.values[2]})", f"{name}()")
    return Multirange(name, values, True, range)


def _ranges(kinds: Sequence[Kind]) -> list[Range]:
    return [range_over(kind) for kind in kinds if kind.has_order]


class Matrix:
    """The kinds, by how they are nested."""

    def __init__(self, scalars: Sequence[Kind] = SCALARS) -> None:
        self.scalars = list(scalars)
        self.domains = [domain_over(kind) for kind in scalars]
        self.arrays = [array_of(kind) for kind in scalars]
        self.ranges = _ranges(scalars)
        self.multiranges = [multirange_of(range) for range in self.ranges]

    @cached_property
    def composites(self) -> list[Composite]:
        """A composite for each nesting, with all types in it; and one of all of these."""
        named: dict[str, Sequence[Kind]] = {
            "c_scalars": self.scalars,
            "c_domains": self.domains,
            "c_arrays": self.arrays,
            "c_ranges": self.ranges,
            "c_multiranges": self.multiranges,
            "c_keys": [kind for kind in self.scalars if kind.has_order],
        }
        nestings = [composite_of(kinds, name) for name, kinds in named.items()]
        return [*nestings, composite_of(nestings, "c_composites")]

    @cached_property
    def twice(self) -> list[Kind]:
        """The kinds that are nested in nested ones."""
        domains = [domain for domain in self.domains if domain.of.name not in ("name", '"char"')]
        keys = self.composites[-2]
        nested: list[Kind] = [array_of(kind) for kind in (*domains, *self.ranges, *self.multiranges)]
        nested += [domain_over(kind) for kind in (*self.arrays, *self.ranges, *self.multiranges)]
        nested += [array_of(kind) for kind in self.composites]
        nested += [array_of(domain_over(kind)) for kind in self.composites]
        nested += [domain_over(array_of(kind)) for kind in self.composites]
        over = [*_ranges(self.domains[:6]), *_ranges(self.arrays[:6]), range_over(keys)]
        return [*nested, *over, *(multirange_of(range) for range in over)]

    @cached_property
    def tables(self) -> list[Table]:
        """All kinds, as columns of tables."""
        named: dict[str, Sequence[Kind]] = {
            "scalars": self.scalars,
            "domains": self.domains,
            "arrays": self.arrays,
            "ranges": self.ranges,
            "multiranges": self.multiranges,
            "composites": self.composites,
        }
        step = 75
        named |= {f"twice_{at // step}": self.twice[at : at + step] for at in range(0, len(self.twice), step)}
        return [Table(name, tuple(kinds)) for name, kinds in named.items()]

    @cached_property
    def key_tables(self) -> list[Table]:
        """The tables whose columns can be keys, up to 32 of them; first those of UUIDs."""
        keys = self.composites[-2]
        named: dict[str, Sequence[Kind]] = {
            "key_scalars": self.scalars,
            "key_domains": self.domains,
            "key_arrays": self.arrays,
            "key_ranges": self.ranges,
            "key_multiranges": self.multiranges,
            "key_composites": [keys, array_of(keys), domain_over(keys)],
        }
        return [Table(name, tuple(kind for kind in kinds if kind.has_order)[:31]) for name, kinds in named.items()]

    @cached_property
    def made_by(self) -> list[str]:
        """The statements that make the types."""
        kinds = [kind for table in (*self.tables, *self.key_tables) for kind in table.kinds]
        return list(dict.fromkeys([ENUM, *(made for kind in kinds for made in kind.made_by)]))


@dataclass(frozen=True)
class Table:
    """A table with a column of each of some kinds, ``k0`` and so on, behind ``id``; ``l0`` and so on come later."""

    name: str
    kinds: tuple[Kind, ...]
    later: tuple[Kind, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The names of the columns of these kinds."""
        return [f"k{at}" for at in range(len(self.kinds))]

    @property
    def shown(self) -> dict[str, Kind]:
        """All columns but the first one, with their kinds."""
        later = {f"l{at}": kind for at, kind in enumerate(self.later)}
        return dict(zip(self.columns, self.kinds, strict=True)) | later

    def made_by(self, key: str = "id") -> str:
        """Write the statement that makes the table.

        Args:
            key: columns of its primary key; none for all, under REPLICA IDENTITY FULL.
        """
        columns = ", ".join(f"{name} {kind.name}" for name, kind in zip(self.columns, self.kinds, strict=True))
        return f"CREATE TABLE {self.name} (id int, {columns}{f', PRIMARY KEY ({key})' if key else ''})"

    def values(self, at: int) -> str:
        """Write the values of a row of a number; after the last ones nulls."""
        return ", ".join(kind.values[at] if at < len(kind.values) else "NULL" for kind in self.kinds)

    def inserted(self, id: int, at: int) -> str:
        """Write the statement that adds a row."""
        return f"INSERT INTO {self.name} VALUES ({id}, {self.values(at)})"

    def updated(self, at: int, where: str) -> str:
        """Write the statement that gives rows other values."""
        pairs = zip(self.columns, (kind.values[at] for kind in self.kinds), strict=True)
        return f"UPDATE {self.name} SET {', '.join(f'{name} = {value}' for name, value in pairs)} WHERE {where}"

    @property
    def query(self) -> str:
        """The query for the rows as the server shows them."""
        shown = (kind.shown(f"t.{name}") for name, kind in self.shown.items())
        return f"SELECT id, {', '.join(shown)} FROM {self.name} t ORDER BY id"


def plain(value: Any) -> Any:
    """Show a value that has landed as texts, lists and objects."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, datetime):
        return value.isoformat(" ").replace("+00:00", "+00")
    return str(value)
