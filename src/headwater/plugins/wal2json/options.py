r"""Options of wal2json 2.5, read as that plugin reads them (pg_decode_startup of its wal2json.c).

What may surprise: an option that is given twice adds to the lists of ``filter-tables``, ``filter-origins`` and the
prefixes of messages, and replaces the others; without a value, ``format-version`` means 2, and ``add-tables`` no table.
Backslashes protect separators; they are taken away in names of tables, and stay in prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.errors import PluginError
from headwater.pg.decimals import decimal
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, INVALID_NAME, INVALID_PARAMETER_VALUE
from headwater.plugins.options import parse_bool, parse_int32

_SPACE = " \t\n\v\f\r"
_LONG = (1 << 63) - 1
ACTIONS = ("insert", "update", "delete", "truncate")
OLDEST_FORMAT, NEWEST_FORMAT = 1, 2

_SWITCHES = (
    *("include-transaction", "include-xids", "include-timestamp", "include-pk", "include-origin", "include-schemas"),
    *("include-types", "include-type-oids", "include-typmod", "include-domain-data-type", "include-column-positions"),
    *("include-not-null", "include-default", "pretty-print", "write-in-chunks", "include-lsn"),
)


@dataclass(frozen=True)
class TablePattern:
    """Tables that are chosen; None stands for any schema, or any table."""

    schema: str | None
    table: str | None

    def has(self, schema: str, table: str) -> bool:
        """Tell whether the pattern chooses a table."""
        return self.schema in (None, schema) and self.table in (None, table)


@dataclass(frozen=True)
class Wal2JsonOptions:
    """Options as parsed (JsonDecodingData), under the plugin's names for them.

    Attributes:
        is_pretty: a ``pretty-print`` that is true; a later one that is false does not take it back.
        actions: names of the changes that are shown.
        filter_origins: ids of origins, 0 never counts.
        filter_tables, add_tables: tables that are left out; tables that are not.
        filter_msg_prefixes, add_msg_prefixes: messages that are left out; if there are any, those that are not.
    """

    format_version: int = 1
    include_transaction: bool = True
    include_xids: bool = False
    include_timestamp: bool = False
    include_pk: bool = False
    include_origin: bool = False
    include_schemas: bool = True
    include_types: bool = True
    include_type_oids: bool = False
    include_typmod: bool = True
    include_domain_data_type: bool = False
    include_column_positions: bool = False
    include_not_null: bool = False
    include_default: bool = False
    pretty_print: bool = False
    write_in_chunks: bool = False
    include_lsn: bool = False
    is_pretty: bool = False
    actions: frozenset[str] = frozenset(ACTIONS)
    filter_origins: tuple[int, ...] = ()
    filter_tables: tuple[TablePattern, ...] = ()
    add_tables: tuple[TablePattern, ...] = (TablePattern(None, None),)
    filter_msg_prefixes: tuple[str, ...] = ()
    add_msg_prefixes: tuple[str, ...] = ()

    def shows_table(self, schema: str, table: str) -> bool:
        """Tell whether changes of a table are shown."""
        if any(pattern.has(schema, table) for pattern in self.filter_tables):
            return False
        return any(pattern.has(schema, table) for pattern in self.add_tables)


def parse_options(options: Sequence[tuple[str, str | None]]) -> Wal2JsonOptions:
    """Read options in the order given.

    Raises:
        PluginError: with the plugin's message.
    """
    result = Wal2JsonOptions()
    for name, value in options:
        result = _with_option(result, name, value)
    return result


def _with_option(result: Wal2JsonOptions, name: str, value: str | None) -> Wal2JsonOptions:
    if name in _SWITCHES:
        return _with_switch(result, name, value)
    if name == "include-unchanged-toast":
        raise PluginError(f'parameter "{name}" was deprecated', sqlstate=INVALID_NAME)
    if name == "format-version":
        return replace(result, format_version=_format_version(name, value))
    if name == "actions":
        return result if value is None else replace(result, actions=_actions(name, value))
    if name in _LISTS:
        return _with_list(result, name, value)
    shown = "(null)" if value is None else value
    raise PluginError(f'option "{name}" = "{shown}" is unknown', sqlstate=INVALID_PARAMETER_VALUE)


def _with_switch(result: Wal2JsonOptions, name: str, value: str | None) -> Wal2JsonOptions:
    parsed = True if value is None else parse_bool(value)
    if parsed is None:
        raise _unparsable(name, value)
    changed: dict[str, Any] = {name.replace("-", "_"): parsed}
    if name == "pretty-print" and parsed:
        changed["is_pretty"] = True
    return replace(result, **changed)


def _format_version(name: str, value: str | None) -> int:
    version = NEWEST_FORMAT if value is None else parse_int32(value)
    if version is None:
        raise _unparsable(name, value)
    for is_wrong, limit, word in (
        (version > NEWEST_FORMAT, NEWEST_FORMAT, "lower"),
        (version < OLDEST_FORMAT, OLDEST_FORMAT, "higher"),
    ):
        if is_wrong:
            raise PluginError(
                f"client sent format_version={version} but we only support format {limit} or {word}",
                sqlstate=FEATURE_NOT_SUPPORTED,
            )
    return version


def _actions(name: str, value: str) -> frozenset[str]:
    actions = _split(name, value)
    for action in actions:
        if action not in ACTIONS:
            raise _unparsable(name, action)
    return frozenset(actions)


def _with_list(result: Wal2JsonOptions, name: str, value: str | None) -> Wal2JsonOptions:
    field, parse = name.replace("-", "_"), _LISTS[name]
    before = () if value is None or name == "add-tables" else getattr(result, field)
    changed: dict[str, Any] = {field: before if value is None else (*before, *parse(name, value))}
    return replace(result, **changed)


def _split(name: str, value: str, *, takes_empty: bool = False) -> list[str]:
    """Split words at commas and white space (split_string_to_list); backslashes stay.

    Raises:
        PluginError: a word is missing where `takes_empty` does not allow for it, or two have no comma between them.
    """
    text = value.lstrip(_SPACE)
    words: list[str] = []
    at, more = 0, bool(text)
    while more:
        end = _word_end(name, value, text, at)
        if end == at and not takes_empty:
            raise _unparsable(name, value, INVALID_NAME)
        words.append(text[at:end])
        at = _past_space(text, end)
        more = text[at : at + 1] == ","
        if more:
            at = _past_space(text, at + 1)
        elif at < len(text):
            raise _unparsable(name, value, INVALID_NAME)
    return words


def _word_end(name: str, value: str, text: str, at: int) -> int:
    while at < len(text) and text[at] != "," and text[at] not in _SPACE:
        at += 2 if text[at] == "\\" else 1
    if at > len(text):
        raise PluginError(
            f'value "{value}" for parameter "{name}" ends in a backslash',
            hint="the plugin reads on behind the value's end then: what it would do cannot be told",
        )
    return at


def _past_space(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at


def _tables(name: str, value: str) -> list[TablePattern]:
    """Parse words such as ``schema.table``, ``*.table``, ``schema.*`` (parse_table_identifier)."""
    return [_table(name, value, word) for word in _split(name, value)]


def _table(name: str, value: str, word: str) -> TablePattern:
    match = re.fullmatch(r"((?:[^\\.]|\\.)*)\.(.*)", word, re.DOTALL)
    if match is None:
        raise _unparsable(name, value, INVALID_NAME)
    schema, table = (re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in match.groups())
    return TablePattern(None if word.startswith("*.") else schema, None if match[2] == "*" else table)


def _origins(name: str, value: str) -> list[int]:
    """Parse numbers (atoi); what is none counts as 0."""
    matches = (re.match(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", word) for word in _split(name, value, takes_empty=True))
    return [max(-_LONG - 1, min(decimal(match[1]), _LONG)) & 0xFFFFFFFF if match else 0 for match in matches]


_LISTS: dict[str, Callable[[str, str], Sequence[Any]]] = {
    "filter-origins": _origins,
    "filter-tables": _tables,
    "add-tables": _tables,
    "filter-msg-prefixes": _split,
    "add-msg-prefixes": _split,
}


def _unparsable(name: str, value: str | None, sqlstate: str = INVALID_PARAMETER_VALUE) -> PluginError:
    return PluginError(f'could not parse value "{value}" for parameter "{name}"', sqlstate=sqlstate)
