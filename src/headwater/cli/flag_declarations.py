"""How flags are declared: what their values are, which environment variables they have, and those of several commands.

A flag that may be given several times takes one value a line of its variable, so that blanks stay what they are.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Container, Sequence
from typing import Any, TypeVar

import click

from headwater.errors import UsageError
from headwater.wal.segments.local_path import local_path

F = TypeVar("F", bound=Callable[..., Any])

SEVERAL = "Several in the environment: one a line."


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


PATH = Paths()
PLACE = Places()
"""Also a server's address, or a store's."""


def flags_of(command: str) -> Callable[..., Callable[[F], F]]:
    """Declares flags of a command, each with its environment variable.

    A flag with ``once`` is refused if it is given twice; of any other that is not ``multiple`` the last one counts.
    """

    def flag(*names: str, **attributes: Any) -> Callable[[F], F]:
        name = next(name for name in names if name.startswith("--"))
        variable = f"headwater_{command}_{name[2:]}".replace("-", "_").upper()
        if attributes.get("multiple"):
            attributes["help"] += f" {SEVERAL}"
        if attributes.pop("once", False):
            attributes |= {"multiple": True, "callback": _only_one}
        if not attributes.get("is_flag"):
            attributes.setdefault("type", _Text())
        return click.option(*names, envvar=variable, show_envvar=True, **attributes)

    return flag


def flags_like(
    command: click.Command, own: str, *names: str, required: Container[str] = ()
) -> Callable[[click.Command], click.Command]:
    """Declares flags as another command has them, each with an environment variable of its own.

    Args:
        command: the other one; own: name of the command that gets them.
        names: of their parameters; required: of those that must be given.
    """

    def declare(mine: click.Command) -> click.Command:
        known = {param.name: param for param in command.params}
        for name in names:
            param = copy.copy(known[name])
            flag = next(text for text in param.opts if text.startswith("--"))
            param.envvar = f"headwater_{own}_{flag[2:]}".replace("-", "_").upper()
            param.required = name in required
            mine.params.append(param)
        return mine

    return declare


def _only_one(context: click.Context, flag: click.Parameter, values: Sequence[str]) -> str | None:
    if len(values) > 1:
        raise click.BadParameter(f"given {len(values)} times, expected one", context, flag)
    return values[0] if values else None


def database_flag(flag: Callable[..., Callable[[F], F]]) -> Callable[[F], F]:
    """The flag of a command that is about one database."""
    return flag("--database", once=True, metavar="NAME", help="Database; default: the only one that is no template.")


def version_flag(flag: Callable[..., Callable[[F], F]]) -> Callable[[F], F]:
    """The flag of a command whose output may depend on the server's minor release."""
    return flag(
        "--server-version",
        metavar="MAJOR.MINOR",
        help="The server's release, as SHOW server_version prints it; default: what the catalog tells, or the newest "
        "that is known. docs/guides/archives-and-stores.md has what depends on it.",
    )


def engine_flag(flag: Callable[..., Callable[[F], F]]) -> Callable[[F], F]:
    """Declare the flag that chooses what a command's tasks run on."""
    return flag(
        "--engine",
        type=click.Choice(["auto", "spark", "local"]),
        default="auto",
        show_default=True,
        help="What tasks run on. auto: this process for up to 64 MB of WAL, without Java, and Spark for more, or where "
        "--master is given. What comes out is the same.",
    )


def wal_flags(flag: Callable[..., Callable[[F], F]], required: bool = False) -> Callable[[F], F]:
    """The flags of a command that say where the WAL is."""

    def declare(command: F) -> F:
        for decorator in (
            flag(
                "--storage-option",
                "storage_options",
                multiple=True,
                metavar="NAME=VALUE",
                help="What the store of an address such as s3:// is told: key, secret, endpoint_url, ...",
            ),
            flag("--timeline", type=click.IntRange(1, 2**32 - 1), metavar="N", help="Timeline; default: the newest."),
            flag(
                "--wal",
                type=PLACE,
                multiple=True,
                required=required,
                metavar="PATH|ADDRESS",
                help="Directory of WAL segments: pg_wal, or an archive, compressed or not, of pgBackRest, WAL-G or "
                "barman. Of several, the first that has a segment is read.",
            ),
        ):
            command = decorator(command)
        return command

    return declare
