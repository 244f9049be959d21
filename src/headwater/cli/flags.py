"""Flags of a command: each is a field of a frozen dataclass, and the command is run with such a value.

``from_flag`` declares a field that a flag fills, ``from_argument`` one that an argument fills. ``from_flags`` declares
one that is itself such a value, of flags that several commands share. A command imports what it works with when it is
run, not before: help, version and completion need none of the heavy libraries.

Every flag has the environment variable that its help prints, made of the command's words and the flag's own. A flag
that may be given several times takes one value a line of its variable, so that blanks stay what they are.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

import click

from headwater.errors import UsageError
from headwater.option_names import use_flags
from headwater.wal.segments.local_path import local_path

V = TypeVar("V")
"""The value of a command's flags: a frozen dataclass."""

SEVERAL = "Several in the environment: one a line."

_PARAMETERS, _GROUP = "parameters", "group"
"""Metadata of a field: what gives the parameters that fill it; the dataclass that they fill together."""


_AGE = re.compile(r"(\d{1,5})([smhd])")
_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class _Text(click.types.StringParamType):
    """UTF-8; of an environment variable, where a flag may be given several times, one value a line."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not valid UTF-8", param, ctx)
        return text

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return [line for line in rv.splitlines() if line]


def age_of(text: str) -> timedelta | None:
    """Read an age such as 7d, 12h or 30m; None for what is no age."""
    age = _AGE.fullmatch(text)
    return None if age is None else int(age[1]) * _UNITS[age[2]]


class Age(click.ParamType[timedelta]):
    """An age."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        age = value if isinstance(value, timedelta) else age_of(str(value))
        if age is None:
            self.fail(f'"{value}" is no age such as 7d, 12h or 30m', param, ctx)
        return age


class Places(click.Path):
    """Paths and addresses; of an environment variable, one a line."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return [line for line in rv.splitlines() if line]


class Paths(Places):
    """Paths on this machine, also as ``file:///path``; any other address is refused, not taken for a path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            value = local_path(os.fsdecode(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


class Targets(Paths):
    """Paths on this machine, and addresses of folders in stores (``s3://``)."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        is_in_store = os.fsdecode(value).lower().startswith(_STORES)
        return value if is_in_store else super().convert(value, param, ctx)


_STORES = ("s3://", "s3a://")

PATH = Paths()
TARGET = Targets()
PLACE = Places()
"""Also a server's address, or a store's."""


class Flag(click.Option):
    """A flag of a command, with its environment variable.

    Args:
        names: as click takes them.
        words: of the command.
        once: it is refused if it is given twice; of any other that is not ``multiple`` the last one counts.
        attributes: click's.

    Attributes:
        is_once: as ``once``.
    """

    def __init__(self, names: Sequence[str], words: str, once: bool = False, **attributes: Any) -> None:
        name = next(name for name in names if name.startswith("--")).partition("/")[0]
        variable = f"headwater {words} {name[2:]}".replace("-", "_").replace(" ", "_").upper()
        if attributes.get("multiple"):
            attributes["help"] += f" {SEVERAL}"
        self.is_once = once
        if once:
            attributes |= {"multiple": True, "callback": _only_one}
        if not attributes.get("is_flag"):
            attributes.setdefault("type", _Text())
        super().__init__(names, envvar=variable, show_envvar=True, **attributes)


def _only_one(context: click.Context, flag: click.Parameter, values: Sequence[str]) -> str | None:
    if len(values) > 1:
        raise click.BadParameter(f"given {len(values)} times, expected one", context, flag)
    return values[0] if values else None


def from_flag(*names: str, **attributes: Any) -> Any:
    """Declare a field of a dataclass that a flag fills; its default is the flag's.

    Args:
        names: ``--name``, with a short one or without.
        attributes: of :class:`Flag`.
    """

    def parameters(name: str, words: str, **changes: Any) -> Iterator[click.Parameter]:
        yield Flag([*names, name], words, **attributes | changes)

    return _filled_by(parameters, attributes)


def from_choice(name: str, *choices: str, **attributes: Any) -> Any:
    """Declare a field of a dataclass that a flag fills with one of some words, by default the first."""
    return from_flag(name, type=click.Choice(choices), default=choices[0], show_default=True, **attributes)


def from_argument(**attributes: Any) -> Any:
    """Declare a field of a dataclass that an argument fills, with click's attributes."""

    def parameters(name: str, _words: str) -> Iterator[click.Parameter]:
        yield click.Argument([name], **attributes)

    return _filled_by(parameters, {"required": "default" not in attributes} | attributes)


def path_argument(**attributes: Any) -> Any:
    """Declare a field of a dataclass that an argument fills with a path on this machine."""
    return from_argument(type=Paths(path_type=Path), **attributes)


def target_argument(**attributes: Any) -> Any:
    """Declare a field of a dataclass that an argument fills with a path on this machine, or an address in a store."""
    return from_argument(type=TARGET, **attributes)


def _filled_by(parameters: Callable[..., Iterator[click.Parameter]], attributes: Mapping[str, Any]) -> Any:
    metadata = {_PARAMETERS: parameters}
    if attributes.get("required"):
        return field(metadata=metadata)
    nothing: Any = () if attributes.get("multiple") else False if attributes.get("is_flag") else None
    return field(metadata=metadata, default=attributes.get("default", nothing))


def from_flags(kind: type[Any], without: Collection[str] = (), optional: Collection[str] = ()) -> Any:
    """Declare a field of a dataclass that is a value of flags which several commands share; no flag has its name.

    Args:
        kind: the dataclass that declares them.
        without: names of its fields that the command has no flags for; they have their defaults.
        optional: names of fields whose flags need not be given to this command.
    """

    def parameters(_name: str, words: str) -> Iterator[click.Parameter]:
        return parameters_of(kind, words, without, optional)

    return field(metadata={_PARAMETERS: parameters, _GROUP: kind}, default_factory=kind)


def parameters_of(
    kind: type[Any], words: str, without: Collection[str] = (), optional: Collection[str] = ()
) -> Iterator[click.Parameter]:
    """Make the parameters that a dataclass declares, for the command of these words; see :func:`from_flags`."""
    for part in fields(kind):
        if part.name not in without:
            changes = {"required": False} if part.name in optional else {}
            yield from part.metadata[_PARAMETERS](part.name, words, **changes)


def value_of(kind: type[V], values: Mapping[str, Any]) -> V:
    """Make the value of a dataclass from those of its parameters, or of fields that are made already."""
    own = {}
    for part in fields(kind):  # type: ignore[arg-type]
        group = part.metadata.get(_GROUP)
        if part.name in values:
            own[part.name] = values[part.name]
        elif group is not None:
            own[part.name] = value_of(group, values)
    return kind(**own)


class FlagsCommand(click.Command, Generic[V]):
    """A command that runs a function with the value of its flags.

    Args:
        words: as they stand after ``headwater``.
        kind: the dataclass that declares the flags.
        run: gives the exit status, or nothing; its docstring is the help.
        attributes: click's.
    """

    def __init__(self, words: str, kind: type[V], run: Callable[[V], int | None], **attributes: Any) -> None:
        name, parameters = words.rpartition(" ")[2], list(parameters_of(kind, words))
        super().__init__(name, params=parameters, callback=self._call, help=run.__doc__, **attributes)
        self.run, self.kind = run, kind

    def _call(self, **values: Any) -> None:
        status = self.run(value_of(self.kind, values))
        if status is not None:
            sys.exit(status)


def command(
    words: str, kind: type[V], short_help: str | None = None
) -> Callable[[Callable[[V], int | None]], FlagsCommand[V]]:
    """Make a command of the function that runs it; see :class:`FlagsCommand`."""
    return lambda run: FlagsCommand(words, kind, run, short_help=short_help)


class CommandGroup(click.Group):
    """Commands below a word; without one of them its help is shown.

    Args:
        name: the word.
        commands: below it.
        attributes: click's.
    """

    def __init__(self, name: str, commands: Sequence[click.Command], **attributes: Any) -> None:
        super().__init__(
            name,
            commands,
            callback=click.pass_context(_need_command),
            invoke_without_command=True,
            subcommand_metavar="COMMAND [ARGS]...",
            **attributes,
        )


def _need_command(context: click.Context) -> None:
    """Show the help of a group that is given none of its commands, and end with status 2.

    Of a command that it is given, messages name the flags from here on.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        sys.exit(2)
    assert isinstance(context.command, click.Group)
    chosen = context.command.get_command(context, context.invoked_subcommand)
    use_flags(flags_named(chosen) if chosen is not None else ())


def flags_named(command: click.Command) -> Iterator[str]:
    """Yield the long flags of a command, without their dashes."""
    for parameter in command.params:
        yield from (name[2:] for name in parameter.opts if name.startswith("--"))
