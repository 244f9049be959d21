"""Rules for what comes in: other names, tables and columns left out, values masked, rows filtered.

Names are written as in SQL: without quotes they are in lower case, ``"Like This"`` they stand as they are. A table is
``schema.table``, a column ``schema.table.column``. Rules name what the source has, whatever other rules make of it.

Invariants: rules are checked against each other here, so at most one says what becomes of something. An exact rename
goes before that of its schema. No message has a secret, or a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from headwater.errors import UsageError
from headwater.rows.masks import LITERAL, Mask, read_mask

_PART = r'"(?:[^"]|"")+"|[^\s".=:*?]+'
_PARTS = re.compile(_PART)
_TABLE = re.compile(rf"({_PART})\.({_PART})")
_COLUMN = re.compile(rf"({_PART})\.({_PART})\.({_PART})")
_SCHEMA = re.compile(rf"({_PART})\.\*")
_WILD = r'"(?:[^"]|"")+"|[^\s".=:]+'
_PATTERN = re.compile(rf"({_WILD})\.({_WILD})")
_RENAME = re.compile(rf"\s*((?:{_PART}|\.|\*)+)\s*=\s*((?:{_PART}|\.|\*)+)\s*")
_MASK = re.compile(rf"\s*((?:{_PART}|\.)+)\s*=(.*)", re.DOTALL)
_CONDITION = re.compile(rf"\s*((?:{_PART}|\.)+)\s*:(.*)", re.DOTALL)

MOST_NAME_BYTES = 63


class TableName(NamedTuple):
    """The name of a table."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True)
class TableRename:
    """Another name of a table; text: of the rule."""

    text: str
    source: TableName
    target: TableName


@dataclass(frozen=True)
class SchemaRename:
    """Another name of a schema, for all its tables; text: of the rule."""

    text: str
    source: str
    target: str


@dataclass(frozen=True)
class ColumnRule:
    """A rule about a column.

    Attributes:
        text: of the rule; table, column: the source's.
        value: its new name, or the mask; empty for a column that is left out.
    """

    text: str
    table: TableName
    column: str
    value: str = ""


@dataclass(frozen=True)
class TablePattern:
    """Tables that are left out; text: of the rule; namespace, name: regular expressions."""

    text: str
    namespace: str
    name: str

    def has(self, table: TableName) -> bool:
        """Tell whether a table is among them."""
        return bool(re.fullmatch(self.namespace, table.namespace) and re.fullmatch(self.name, table.name))


@dataclass(frozen=True)
class RowCondition:
    """A condition that rows of a table meet; text: of the rule; expression: in SQL."""

    text: str
    table: TableName
    expression: str


@dataclass(frozen=True)
class TableRules:
    """The rules for one table.

    Attributes:
        renamed: new names of columns; excluded: columns that are left out; masked: masks of columns.
        condition: that rows meet, None for all rows.
    """

    renamed: dict[str, ColumnRule]
    excluded: dict[str, ColumnRule]
    masked: dict[str, ColumnRule]
    condition: RowCondition | None

    @property
    def columns(self) -> list[ColumnRule]:
        """All rules about columns."""
        return [*self.renamed.values(), *self.excluded.values(), *self.masked.values()]


@dataclass(frozen=True)
class MapRules:
    """All rules of a subscription.

    Attributes:
        tables, schemas, columns: other names.
        left_out: tables that are left out; excluded: columns that are.
        masks: of columns; conditions: of rows.
        secret: that hashes are made with.
    """

    tables: tuple[TableRename, ...] = ()
    schemas: tuple[SchemaRename, ...] = ()
    columns: tuple[ColumnRule, ...] = ()
    left_out: tuple[TablePattern, ...] = ()
    excluded: tuple[ColumnRule, ...] = ()
    masks: tuple[ColumnRule, ...] = ()
    conditions: tuple[RowCondition, ...] = ()
    secret: bytes = field(default=b"", repr=False)

    def __bool__(self) -> bool:
        return any((self.tables, self.schemas, self.columns, self.left_out, self.excluded, self.masks, self.conditions))

    @property
    def needs_text(self) -> bool:
        """Whether values are looked at, which is done in their text form."""
        return bool(self.masks or self.conditions)

    def target(self, table: TableName) -> TableName:
        """Return the target's name for a table of the source's."""
        for rename in self.tables:
            if rename.source == table:
                return rename.target
        for schema in self.schemas:
            if schema.source == table.namespace:
                return TableName(schema.target, table.name)
        return table

    def sources(self, target: TableName) -> list[tuple[TableName, str]]:
        """Return the tables of the source that come to a table under another name, each with the rule's text."""
        by_schema = [(TableName(rule.source, target.name), rule.text) for rule in self.schemas]
        named = [(rule.source, rule.text) for rule in self.tables]
        return [(table, text) for table, text in [*named, *by_schema] if self.target(table) == target != table]

    def leaves_out(self, table: TableName) -> bool:
        """Tell whether a table is left out."""
        return any(pattern.has(table) for pattern in self.left_out)

    def of(self, table: TableName) -> TableRules:
        """Return the rules for a table."""
        conditions = [rule for rule in self.conditions if rule.table == table]
        renamed, excluded, masked = (_of(table, rules) for rules in (self.columns, self.excluded, self.masks))
        return TableRules(renamed, excluded, masked, conditions[0] if conditions else None)

    def named(self) -> dict[TableName, str]:
        """Return the tables that rules name one by one, each with the text of such a rule."""
        texts = {rule.table: rule.text for rule in (*self.columns, *self.excluded, *self.masks)}
        texts |= {rule.table: rule.text for rule in self.conditions}
        return texts | {rule.source: rule.text for rule in self.tables}


def _of(table: TableName, rules: Iterable[ColumnRule]) -> dict[str, ColumnRule]:
    return {rule.column: rule for rule in rules if rule.table == table}


def read_rules(
    *,
    renames: Sequence[str] = (),
    left_out: Sequence[str] = (),
    excluded: Sequence[str] = (),
    masks: Sequence[str] = (),
    conditions: Sequence[str] = (),
    secret: bytes = b"",
) -> MapRules:
    """Read rules as they are given on the command line.

    Args:
        renames, left_out, excluded, masks, conditions: of ``--rename``, ``--exclude-table``, ``--exclude-column``,
            ``--mask`` and ``--where``.
        secret: that hashes are made with, empty for none.

    Raises:
        UsageError: one is malformed, or two contradict each other.
    """
    names = [_rename(text) for text in dict.fromkeys(renames)]
    rules = MapRules(
        tables=tuple(rule for rule in names if isinstance(rule, TableRename)),
        schemas=tuple(rule for rule in names if isinstance(rule, SchemaRename)),
        columns=tuple(rule for rule in names if isinstance(rule, ColumnRule)),
        left_out=tuple(_pattern(text) for text in dict.fromkeys(left_out)),
        excluded=tuple(_column(f"--exclude-column {text}", text) for text in dict.fromkeys(excluded)),
        masks=tuple(_masked(text) for text in dict.fromkeys(masks)),
        conditions=tuple(_condition(text) for text in dict.fromkeys(conditions)),
        secret=secret,
    )
    _check(rules)
    return rules


def mask_of(rule: ColumnRule) -> Mask:
    """Return the mask that a rule asks for.

    Raises:
        UsageError: there is no such mask.
    """
    try:
        return read_mask(rule.value)
    except UsageError as error:
        raise UsageError(f"{rule.text}: there is no such mask", hint=error.hint) from None


def _name(part: str) -> str:
    name = part[1:-1].replace('""', '"') if part.startswith('"') else _lower(part)
    if len(name.encode()) > MOST_NAME_BYTES or "\0" in name:
        raise UsageError(f'the name "{name}" is longer than any of PostgreSQL', hint=f"at most {MOST_NAME_BYTES} bytes")
    return name


def _lower(name: str) -> str:
    """Return a name as SQL has it without quotes: letters beyond ASCII stay."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _table_name(text: str) -> TableName | None:
    match = _TABLE.fullmatch(text)
    return TableName(_name(match[1]), _name(match[2])) if match else None


def _column(rule: str, text: str, value: str = "") -> ColumnRule:
    match = _COLUMN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{rule}: no column is named", hint="write it as schema.table.column")
    return ColumnRule(rule, TableName(_name(match[1]), _name(match[2])), _name(match[3]), value)


def _rename(text: str) -> TableRename | SchemaRename | ColumnRule:
    rule, match = f"--rename {text}", _RENAME.fullmatch(text)
    if match is not None:
        old, new = match[1], match[2]
        if (source := _table_name(old)) and (target := _table_name(new)):
            return TableRename(rule, source, target)
        if (schema := _SCHEMA.fullmatch(old)) and (other := _SCHEMA.fullmatch(new)):
            return SchemaRename(rule, _name(schema[1]), _name(other[1]))
        if _COLUMN.fullmatch(old) and _PARTS.fullmatch(new):
            return _column(rule, old, _name(new))
    raise UsageError(
        f"{rule}: that is no rename",
        hint="write schema.table=schema.table, schema.*=schema.*, or schema.table.column=name",
    )


def _pattern(text: str) -> TablePattern:
    rule, match = f"--exclude-table {text}", _PATTERN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{rule}: that is no table", hint="write schema.table; * and ? stand for characters")
    return TablePattern(rule, _expression(match[1]), _expression(match[2]))


def _expression(part: str) -> str:
    if part.startswith('"'):
        return re.escape(_name(part))
    return re.escape(_lower(part)).replace(r"\*", ".*").replace(r"\?", ".")


def _masked(text: str) -> ColumnRule:
    match = _MASK.fullmatch(text)
    if match is None:
        raise UsageError(f"--mask {_shown(text)}: that is no mask", hint="write schema.table.column=ACTION")
    rule = _column(f"--mask {match[1]}={_shown(match[2])}", match[1], match[2])
    mask_of(rule)
    return rule


def _shown(value: str) -> str:
    """Return a mask for messages: texts may not be for everybody's eyes."""
    return f"{LITERAL}:..." if value.startswith(f"{LITERAL}:") else value


def _condition(text: str) -> RowCondition:
    match = _CONDITION.fullmatch(text)
    table = _table_name(match[1]) if match else None
    if match is None or table is None or not match[2].strip():
        raise UsageError(f"--where {text}: that is no condition", hint="write 'schema.table: EXPRESSION'")
    return RowCondition(f"--where {text}", table, match[2].strip())


_Rule = TypeVar("_Rule", TableRename, SchemaRename, ColumnRule, RowCondition)


def _check(rules: MapRules) -> None:
    """See that rules do not contradict each other."""
    _one_each((rule.source, rule.text) for rule in rules.tables)
    _one_each((rule.source, rule.text) for rule in rules.schemas)
    _one_each((rule.table, rule.text) for rule in rules.conditions)
    for columns in (rules.columns, rules.masks):
        _one_each(((rule.table, rule.column), rule.text) for rule in columns)
    _one_each(((rule.table, rule.value), rule.text) for rule in rules.columns)
    gone = {(rule.table, rule.column): rule.text for rule in rules.excluded}
    for rule in (*rules.columns, *rules.masks):
        if (rule.table, rule.column) in gone:
            raise _contradiction(rule.text, gone[rule.table, rule.column])
    for table, text in rules.named().items():
        for pattern in rules.left_out:
            if pattern.has(table):
                raise _contradiction(text, pattern.text)
    hashed = [rule for rule in rules.masks if mask_of(rule).tells_apart]
    if hashed and not rules.secret:
        raise UsageError(
            f"{hashed[0].text} needs a secret",
            hint="give --mask-secret-file FILE, or the variable HEADWATER_MASK_SECRET of the environment",
        )


def _one_each(rules: Iterable[tuple[object, str]]) -> None:
    texts: dict[object, str] = {}
    for key, text in rules:
        if key in texts:
            raise _contradiction(texts[key], text)
        texts[key] = text


def _contradiction(first: str, second: str) -> UsageError:
    return UsageError(f"{first} and {second} contradict each other")
