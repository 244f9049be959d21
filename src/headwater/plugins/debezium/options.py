"""Options of the plugin debezium: the properties of Debezium's PostgreSQL connector that shape its events.

Names, values and defaults are the connector's. Properties of where it reads, how often and in what pieces have no
meaning here, and are errors as any other unknown name. A property of events that is not supported is an error with a
message of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.errors import PluginError
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE

DECIMAL_MODES = ("precise", "double", "string")
TIME_MODES = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
INTERVAL_MODES = ("numeric", "string")
BINARY_MODES = ("bytes", "base64", "base64-url-safe", "hex")
HSTORE_MODES = ("json", "map")
OPERATIONS = {"c": "create", "u": "update", "d": "delete", "t": "truncate"}
EVENT_FORMS = ("record", "value")
FEWEST_MONEY_DIGITS = 2

_UNSUPPORTED = (
    *("column.include.list", "column.exclude.list", "include.unknown.datatypes", "message.key.columns"),
    *("publication.name", "publish.via.partition.root", "schema.name.adjustment.mode", "field.name.adjustment.mode"),
    *("skip.messages.without.change", "include.schema.comments", "transforms", "post.processors", "converters"),
    *("topic.naming.strategy", "topic.delimiter", "heartbeat.interval.ms", "xmin.fetch.interval.ms"),
    *("key.converter", "value.converter", "decimal.format", "event.converting.failure.handling.mode"),
)


@dataclass(frozen=True)
class DebeziumOptions:
    """The options as parsed, under the connector's names for them.

    Attributes:
        topic_prefix: ``topic.prefix``.
        key_schemas, value_schemas, header_schemas: keys, values and headers are written with their schema.
        transaction_metadata: ``provide.transaction.metadata``.
        tombstones: an event without a value follows each delete.
        skipped: letters of operations that give no events.
        placeholder: the text that stands for a long value that was not written again.
        money_digits: digits after the point of amounts of money.
        schema_changes: DDL gives events (``include.schema.changes``, of Debezium's other connectors).
        event_form: ``record`` or ``value`` (``event.form``, which the connector does not have).
        includes, excludes: patterns of ``schema.table``; schemas_included, schemas_excluded: of schemas;
            prefixes_included, prefixes_excluded: of prefixes of logical messages. An empty include list means all.
    """

    topic_prefix: str = ""
    key_schemas: bool = True
    value_schemas: bool = True
    header_schemas: bool = True
    decimal_mode: str = "precise"
    time_mode: str = "adaptive"
    interval_mode: str = "numeric"
    binary_mode: str = "bytes"
    hstore_mode: str = "json"
    transaction_metadata: bool = False
    tombstones: bool = True
    skipped: frozenset[str] = frozenset("t")
    placeholder: str = "__debezium_unavailable_value"
    money_digits: int = 2
    schema_changes: bool = True
    event_form: str = "record"
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    schemas_included: tuple[str, ...] = ()
    schemas_excluded: tuple[str, ...] = ()
    prefixes_included: tuple[str, ...] = ()
    prefixes_excluded: tuple[str, ...] = ()

    def shows_table(self, schema: str, table: str) -> bool:
        """Tell whether changes of a table give events."""
        return _is_chosen(schema, self.schemas_included, self.schemas_excluded) and _is_chosen(
            f"{schema}.{table}", self.includes, self.excludes
        )

    def shows_prefix(self, prefix: str) -> bool:
        """Tell whether logical messages of a prefix give events."""
        return _is_chosen(prefix, self.prefixes_included, self.prefixes_excluded)


def parse_options(options: Sequence[tuple[str, str | None]]) -> DebeziumOptions:
    """Read options in the order given; of an option that is given twice the last value counts.

    Raises:
        PluginError: a name is unknown or missing, a value is not allowed, or two options exclude each other.
    """
    result = DebeziumOptions()
    for name, value in options:
        field, parse = _find(name)
        if value is None:
            raise PluginError(f'option "{name}" requires a value', sqlstate=INVALID_PARAMETER_VALUE)
        changed: dict[str, Any] = {field: parse(name, value)}
        result = replace(result, **changed)
    if not result.topic_prefix:
        raise PluginError('option "topic.prefix" is missing', hint="every topic's name begins with it")
    for include, exclude, what in (
        (result.includes, result.excludes, "table"),
        (result.schemas_included, result.schemas_excluded, "schema"),
        (result.prefixes_included, result.prefixes_excluded, "message.prefix"),
    ):
        if include and exclude:
            raise PluginError(f'"{what}.include.list" and "{what}.exclude.list" exclude each other')
    return result


def _find(name: str) -> tuple[str, Callable[[str, str], Any]]:
    if name in _OPTIONS:
        return _OPTIONS[name]
    if name in _UNSUPPORTED or name.split(".")[0] in ("transforms", "column"):
        raise PluginError(f'option "{name}" is not supported by debezium here', sqlstate=FEATURE_NOT_SUPPORTED)
    raise PluginError(
        f'option "{name}" is unknown to debezium',
        sqlstate=INVALID_PARAMETER_VALUE,
        hint=f"known are {', '.join(sorted(_OPTIONS))}",
    )


def _one_of(words: Sequence[str]) -> Callable[[str, str], str]:
    def parse(name: str, value: str) -> str:
        word = value.strip().lower()
        if word not in words:
            raise _wrong(name, value, f"one of {', '.join(words)}")
        return word

    return parse


def _switch(name: str, value: str) -> bool:
    word = value.strip().lower()
    if word not in ("true", "false"):
        raise _wrong(name, value, "true or false")
    return word == "true"


def _prefix(name: str, value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9._-]+", value) is None:
        raise _wrong(name, value, "letters, digits, dots, hyphens and underscores")
    return value


def _text(_name: str, value: str) -> str:
    return value


def _operations(name: str, value: str) -> frozenset[str]:
    letters = {word: letter for letter, name in OPERATIONS.items() for word in (letter, name)}
    words = [word.strip().lower() for word in value.split(",")]
    if words == ["none"]:
        return frozenset()
    if not all(word in letters for word in words):
        raise _wrong(name, value, f"letters of {', '.join(OPERATIONS)} with commas between, or none")
    return frozenset(letters[word] for word in words)


def _digits(name: str, value: str) -> int:
    if re.fullmatch(r"[0-9]{1,2}", value) is None or int(value) < FEWEST_MONEY_DIGITS:
        raise _wrong(name, value, f"a number of digits, {FEWEST_MONEY_DIGITS} or more")
    return int(value)


def _patterns(name: str, value: str) -> tuple[str, ...]:
    patterns = tuple(part.strip().replace("\\,", ",") for part in re.split(r"(?<!\\),", value) if part.strip())
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise _wrong(name, value, f"regular expressions with commas between ({error})") from None
    return patterns


def _is_chosen(text: str, includes: Sequence[str], excludes: Sequence[str]) -> bool:
    """Tell whether a text is chosen by patterns, which ignore case and must match as a whole."""
    if includes:
        return any(re.fullmatch(pattern, text, re.IGNORECASE) for pattern in includes)
    return not any(re.fullmatch(pattern, text, re.IGNORECASE) for pattern in excludes)


def _wrong(name: str, value: str, expected: str) -> PluginError:
    return PluginError(
        f'invalid value "{value}" for option "{name}"', sqlstate=INVALID_PARAMETER_VALUE, hint=f"expected {expected}"
    )


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "topic.prefix": ("topic_prefix", _prefix),
    "key.converter.schemas.enable": ("key_schemas", _switch),
    "value.converter.schemas.enable": ("value_schemas", _switch),
    "header.converter.schemas.enable": ("header_schemas", _switch),
    "decimal.handling.mode": ("decimal_mode", _one_of(DECIMAL_MODES)),
    "time.precision.mode": ("time_mode", _one_of(TIME_MODES)),
    "interval.handling.mode": ("interval_mode", _one_of(INTERVAL_MODES)),
    "binary.handling.mode": ("binary_mode", _one_of(BINARY_MODES)),
    "hstore.handling.mode": ("hstore_mode", _one_of(HSTORE_MODES)),
    "provide.transaction.metadata": ("transaction_metadata", _switch),
    "tombstones.on.delete": ("tombstones", _switch),
    "skipped.operations": ("skipped", _operations),
    "unavailable.value.placeholder": ("placeholder", _text),
    "money.fraction.digits": ("money_digits", _digits),
    "include.schema.changes": ("schema_changes", _switch),
    "event.form": ("event_form", _one_of(EVENT_FORMS)),
    "table.include.list": ("includes", _patterns),
    "table.exclude.list": ("excludes", _patterns),
    "schema.include.list": ("schemas_included", _patterns),
    "schema.exclude.list": ("schemas_excluded", _patterns),
    "message.prefix.include.list": ("prefixes_included", _patterns),
    "message.prefix.exclude.list": ("prefixes_excluded", _patterns),
}
