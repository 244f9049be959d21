"""``headwater user``: who may connect to a service, and what by."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headwater.cli.flags import PATH, CommandGroup, command, from_argument, from_flag, from_flags
from headwater.errors import UsageError

if TYPE_CHECKING:
    from headwater.protocol.scram import Verifier
    from headwater.walsender.access.users import User

LISTED = ("name", "password", "publications", "physical")
"""What ``user list`` prints of each."""


@dataclass(frozen=True)
class UsersFlags:
    """The flag that names the file of users."""

    users: str = from_flag(
        "--users", type=PATH, default="users.toml", show_default=True, metavar="FILE", help="The file of users."
    )


@dataclass(frozen=True)
class AddFlags:
    """The argument and flags of ``headwater user add``."""

    name: str = from_argument()
    file: UsersFlags = from_flags(UsersFlags)
    publications: Sequence[str] = from_flag(
        "--publication", multiple=True, metavar="NAME", help="A publication that the user may read; default: all."
    )
    physical: bool = from_flag(
        "--physical", is_flag=True, help="The user may do physical replication, too: all WAL, and base backups."
    )
    password_file: str | None = from_flag(
        "--password-file", type=PATH, metavar="FILE", help="The first line is the password; default: you are asked."
    )
    no_password: bool = from_flag(
        "--no-password", is_flag=True, help="No password: the user comes by the Unix socket, or with a certificate."
    )
    replaces: bool = from_flag("--replace", is_flag=True, help="Replace the user of this name, password and all.")


@dataclass(frozen=True)
class DropFlags:
    """The argument and flag of ``headwater user drop``."""

    name: str = from_argument()
    file: UsersFlags = from_flags(UsersFlags)


@command("user add", AddFlags)
def add_command(flags: AddFlags) -> None:
    """Add the user NAME, who may connect by a password; only its verifier is stored.

    Without --password-file the password is asked for on the terminal, twice; where there is none, it is the first line
    of standard input.
    """
    from headwater.walsender.access.users import User, is_role_name, users_locked, write_users

    if not is_role_name(flags.name):
        raise UsageError(f'invalid name of a user "{flags.name}", expected 1 to 63 bytes')
    if flags.no_password and flags.password_file is not None:
        raise UsageError("--no-password and --password-file go not together", hint="leave one of them out")
    path = Path(flags.file.users)
    verifier = None if flags.no_password else _verifier(flags.password_file)
    publications = tuple(flags.publications) or None
    with users_locked(path) as users:
        if flags.name in users.by_name and not flags.replaces:
            raise UsageError(f'user "{flags.name}" already exists', file=str(path), hint="give --replace")
        user = User(flags.name, verifier, publications=publications, may_copy_all=flags.physical)
        write_users(path, users.with_user(user))


@command("user list", UsersFlags)
def list_command(flags: UsersFlags) -> None:
    """List the users, and what they may do."""
    from headwater.walsender.access.users import read_users

    users = read_users(Path(flags.users))
    rows = [LISTED, *(_row(user) for user in users.by_name.values())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


@command("user drop", DropFlags)
def drop_command(flags: DropFlags) -> None:
    """Drop the user NAME."""
    from headwater.walsender.access.users import users_locked, write_users

    path = Path(flags.file.users)
    with users_locked(path) as users:
        if flags.name not in users.by_name:
            raise UsageError(f'user "{flags.name}" does not exist', file=str(path))
        write_users(path, users.without(flags.name))


user_command = CommandGroup(
    "user",
    [add_command, list_command, drop_command],
    short_help="Who may connect to a service.",
    help="Who may connect to a service, by which password, and what they may read.",
)


def _row(user: User) -> tuple[str, ...]:
    publications = "all" if user.publications is None else ",".join(user.publications)
    shown = publications if user.may_replicate else "none"
    return user.name, "no" if user.verifier is None else "yes", shown, "yes" if user.may_copy_all else "no"


def _verifier(password_file: str | None) -> Verifier:
    from headwater.protocol.scram import SALT_BYTES, Verifier

    password = _password(password_file)
    if not password or b"\0" in password:
        raise UsageError("the password is empty, or has a zero byte")
    return Verifier.make(password, secrets.token_bytes(SALT_BYTES))


def _password(password_file: str | None) -> bytes:
    from headwater.base.system_errors import errors_as

    if password_file is not None:
        with errors_as(UsageError, "read the password", password_file), open(password_file, "rb") as file:
            return file.readline().rstrip(b"\r\n")
    if sys.stdin.isatty():
        text: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return text.encode("utf-8", "surrogateescape")
    return sys.stdin.buffer.readline().rstrip(b"\r\n")
