"""A file that says what a command's flags would: TOML, a table for each command, a key for each flag.

::

    [serve]
    listen = ["0.0.0.0:6432"]
    wal = ["/wal/db1", "/backups/monday/pg_wal"]
    max-wal-senders = 20

A flag or an environment variable goes before the file. The file is checked whole before anything runs: an unknown table
or key, and a value that the flag would not take, are errors with line and column.

``[subscriptions.NAME]`` has the flags of ``headwater apply`` for one of several subscriptions, ``[apply]`` what they
have in common. ``[[land.table]]`` has settings of some of the tables that ``headwater land`` lands, which no flag has.

TOML's parser keeps no places. A key's place is where the shortest beginning of the file that has the key goes beyond
the longest one without it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from headwater.base.system_errors import errors_as
from headwater.cli.flags import PATH, Flag, from_flag
from headwater.errors import UsageError

if TYPE_CHECKING:
    from headwater.lakes.settings.table_settings import TableSettings

SUBSCRIPTIONS, OF_SUBSCRIPTIONS = "subscriptions", "apply"
"""The tables of subscriptions, and the command whose flags they have."""

LAND, TABLE = "land", "table"
"""The command whose table has entries that no flag has, and their name."""

FILE_IS_READ = object()
"""The ``obj`` of a context whose defaults have what the file says already."""

Values = dict[str, Any]
"""Values by the names of click's parameters."""

_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.S)


def config_flag() -> Any:
    """Declare the field of a command's flags that names its file; what it says are the flags' defaults."""
    return from_flag(
        "--config",
        type=PATH,
        metavar="FILE",
        is_eager=True,
        callback=_take_defaults,
        help="TOML that has what flags would say, in a table of the command's name; flags and variables go before it.",
    )


def _take_defaults(context: click.Context, _: click.Parameter, path: str | None) -> str | None:
    if path is not None and context.obj is not FILE_IS_READ:
        context.default_map = {**file_defaults(context, path), **(context.default_map or {})}
    return path


def file_defaults(context: click.Context, path: str) -> Values:
    """Read what a file says for the command of a context; as :func:`defaults_of`."""
    return defaults_of(path, context.command, _tables(context))


def _tables(context: click.Context) -> list[str]:
    """List the commands that take such a file: one may have tables for all of them."""
    group = None if context.parent is None else context.parent.command
    commands = group.commands.values() if isinstance(group, click.Group) else [context.command]
    return [str(command.name) for command in commands if any(flag.name == "config" for flag in command.params)]


def defaults_of(path: str, command: click.Command, tables: Collection[str]) -> Values:
    """Read what a file says for a command.

    Args:
        path: of the file; command: that reads it.
        tables: names of commands that may have tables.

    Returns:
        values by the names of click's parameters.

    Raises:
        UsageError: the file cannot be read, is no TOML, or has what the command does not take.
    """
    return ConfigFile(path, tables).values((str(command.name),), command)


class ConfigFile:
    """A file as it was when it was read.

    Args:
        path: of it; tables: names of commands that may have tables; None for any.

    Raises:
        UsageError: the file cannot be read, is no TOML, or has other tables.
    """

    def __init__(self, path: str, tables: Collection[str] | None) -> None:
        self.path, self._text = path, _read(path)
        self._document = _parsed(self._text, path)
        if tables is None:
            tables = list(self._document)
        known = [*tables, SUBSCRIPTIONS] if OF_SUBSCRIPTIONS in tables else tables
        for name, table in self._document.items():
            if name not in known:
                expected = ", ".join(f"[{each}{'.NAME' * (each == SUBSCRIPTIONS)}]" for each in sorted(known))
                raise self.wrong(f'unknown table "{name}", expected {expected}', (name,))
            self._check_table(table, (name,))
        for name, table in self._document.get(SUBSCRIPTIONS, {}).items():
            self._check_table(table, (SUBSCRIPTIONS, name))

    @property
    def subscriptions(self) -> list[str]:
        """The names of the subscriptions that have tables."""
        return list(self._document.get(SUBSCRIPTIONS, {}))

    def values(self, table: tuple[str, ...], command: click.Command, without: Collection[str] = ()) -> Values:
        """Return what a table says for a command, which may be missing.

        Args:
            table: its name, word by word; command: whose flags are its keys.
            without: flags that it cannot have, without dashes.

        Raises:
            UsageError: it has what the command does not take.
        """
        content: Any = self._document
        for name in table:
            content = content.get(name, {})
        values, flags = {}, _flags_of(command)
        for key, value in content.items():
            if (*table, key) == (LAND, TABLE):
                continue
            flag = None if key in without else flags.get(key)
            if flag is None:
                place = (*table, key)
                raise self.wrong(f'unknown key "{key}", expected a flag of headwater {command.name}', place)
            message = _fault(flag, key, value, click.Context(command))
            if message is not None:
                raise self.wrong(message, (*table, key))
            values[str(flag.name)] = _taken(flag, value)
        return values

    @property
    def table_settings(self) -> tuple[TableSettings, ...]:
        """The settings of tables that ``headwater land`` lands.

        Raises:
            UsageError: an entry has what it does not take.
        """
        from headwater.cli.settings.land_tables import read_table_settings

        def wrong(message: str, *keys: str | int) -> UsageError:
            return self.wrong(message, (LAND, TABLE, *keys))

        return read_table_settings(self._document.get(LAND, {}).get(TABLE, []), wrong)

    def wrong(self, message: str, keys: tuple[str | int, ...]) -> UsageError:
        """Return the error that something is wrong at a key, or with a table."""
        line, column = place_of(self._text, keys)
        return UsageError(f"line {line}, column {column}: {message}", file=self.path)

    def _check_table(self, table: object, keys: tuple[str, ...]) -> None:
        if not isinstance(table, dict):
            raise self.wrong(f'"{keys[-1]}" is no table, expected [{".".join(keys)}]', keys)


def _read(path: str) -> str:
    with errors_as(UsageError, "read the configuration file", path), open(path, "rb") as file:
        data = file.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"line {line}: the file is not valid UTF-8", file=path) from None


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _PLACE.fullmatch(str(error))
        message = str(error) if match is None else match[1]
        line, column = text.count("\n") + 1, 1
        if match is not None and match[2] is not None:
            line, column = int(match[2]), int(match[3])
        raise UsageError(f"line {line}, column {column}: {message[:1].lower()}{message[1:]}", file=path) from None


def _flags_of(command: click.Command) -> dict[str, click.Option]:
    flags = [flag for flag in command.params if isinstance(flag, click.Option) and flag.name != "config"]
    return {name[2:]: flag for flag in flags for name in flag.opts if name.startswith("--")}


def _fault(flag: click.Option, key: str, value: Any, context: click.Context) -> str | None:
    """Say what is wrong with a value; None if the flag takes it."""
    if flag.is_flag:
        fits, expected = isinstance(value, bool), "true or false"
    elif _is_list(flag):
        fits, expected = isinstance(value, list) and all(map(_is_plain, value)), "a list"
    else:
        fits, expected = _is_plain(value), "one value"
    if not fits:
        return f'"{key}" has a value of another kind, expected {expected}'
    try:
        if not flag.is_flag:
            flag.type_cast_value(context, _taken(flag, value))
    except click.BadParameter as error:
        return f'"{key}": {error.message}'
    return None


def _is_list(flag: click.Option) -> bool:
    return flag.multiple and not (isinstance(flag, Flag) and flag.is_once)


def _taken(flag: click.Option, value: Any) -> Any:
    """Return a value as the command line would have it."""
    if isinstance(value, bool):
        return value
    values = list(map(str, value)) if isinstance(value, list) else [str(value)]
    return values if flag.multiple else values[0]


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def settings_in(path: str | None) -> tuple[TableSettings, ...]:
    """Read the settings of tables that a file has for ``headwater land``; none without a file.

    Raises:
        UsageError: the file cannot be read, or an entry has what it does not take.
    """
    return () if path is None else ConfigFile(path, None).table_settings


def place_of(text: str, keys: tuple[str | int, ...]) -> tuple[int, int]:
    """Find the line and the column, from 1 on, of a key of a document.

    Args:
        text: a document of TOML; keys: of its tables, and of the value; of entries the number, from 0 on.
    """
    lines, behind = text.splitlines(keepends=True), 0
    for number in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue
        if _has(document, keys):
            break
        behind = number
    while behind < len(lines) - 1 and _says_nothing(lines[behind]):
        behind += 1
    line = lines[behind] if lines else ""
    return behind + 1, len(line) - len(line.lstrip()) + 1


def _says_nothing(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _has(document: Mapping[str, Any], keys: tuple[str | int, ...]) -> bool:
    value: Any = document
    for key in keys:
        if isinstance(key, int):
            if not isinstance(value, list) or key >= len(value):
                return False
        elif not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True
