"""Users of a service: who they are, what they may read, and the verifiers of their passwords, in a file of TOML.

::

    # Users of headwater serve, written by "headwater user". Verifiers are secrets.
    secret = "a41f..."

    [users.replicator]
    verifier = "SCRAM-SHA-256$4096:...$...:..."
    publications = ["orders"]
    physical = false

- ``verifier`` is what PostgreSQL has in ``pg_authid.rolpassword``. A user without one cannot log in by a password.
- ``replication = false`` forbids replication of any kind, COPY of tables too; without the line it is allowed.
- ``publications`` names those that the user may read; without the line all.
- ``physical = true`` allows physical replication, which no publication limits: all WAL, and base backups.
- ``secret`` is what the salts of unknown users are derived from (``mock_authentication_nonce`` in pg_control).

A password is never in it. The file is written whole, with mode 0600; one that others may read is refused.

Known gap: there are no groups, and no times until which a password is valid.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwater.base.locks import lock_within, open_lock, release
from headwater.base.system_errors import errors_as
from headwater.base.whole_files import write_whole
from headwater.errors import AccessError
from headwater.pg.identifiers import MOST_NAME_BYTES
from headwater.protocol.scram import SECRET_BYTES, Verifier

LOCK_SECONDS = 10.0

_HEAD = '# Users of headwater serve, written by "headwater user". Verifiers are secrets.\n'
_KEYS = {"verifier": str, "replication": bool, "publications": list, "physical": bool}


@dataclass(frozen=True)
class User:
    """A user, and what it may do.

    Attributes:
        name: as clients give it.
        verifier: of the password; None without one. It is in no message.
        may_replicate: replication is allowed at all.
        publications: which may be read; None for all.
        may_copy_all: physical replication is allowed.
    """

    name: str
    verifier: Verifier | None = field(default=None, repr=False)
    may_replicate: bool = True
    publications: tuple[str, ...] | None = None
    may_copy_all: bool = False

    @property
    def readable(self) -> tuple[str, ...] | None:
        """The publications whose rows it may copy: none, if it may not replicate; None for all there are."""
        return self.publications if self.may_replicate else ()


@dataclass(frozen=True)
class Users:
    """All users of a service.

    Attributes:
        by_name: the users.
        secret: see the module's note.
    """

    by_name: Mapping[str, User] = field(default_factory=dict)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(SECRET_BYTES), repr=False)

    def with_user(self, user: User) -> Users:
        """Return the users with one more, or one that takes the place of another."""
        return replace(self, by_name={**self.by_name, user.name: user})

    def without(self, name: str) -> Users:
        """Return the users without one."""
        return replace(self, by_name={other: user for other, user in self.by_name.items() if other != name})


def read_users(path: Path) -> Users:
    """Read the file of users.

    Raises:
        AccessError: it is not there, is malformed, or open to others.
    """
    with errors_as(AccessError, "read the file of users", path), path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise AccessError(
                f"the file of users has mode {stat.S_IMODE(mode):04o}, expected no access for group or world",
                file=str(path),
                hint="run: chmod 600",
            )
        data = file.read()
    return parse_users(data, str(path))


def parse_users(data: bytes, file: str) -> Users:
    """Parse what a file of users has.

    Args:
        data: of the file; file: its name, for errors.

    Raises:
        AccessError: it is malformed. What stands there is not in the message.
    """
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        raise AccessError("the file of users is no TOML in UTF-8", file=file) from None
    _check_keys(document, {"secret": str, "users": dict}, "the file of users", file)
    try:
        secret = bytes.fromhex(document["secret"])
    except (KeyError, ValueError):
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise AccessError(f"the file of users has no secret, expected {2 * SECRET_BYTES} digits", file=file)
    users = [_user(name, entry, file) for name, entry in document.get("users", {}).items()]
    return Users({user.name: user for user in users}, secret)


def _user(name: str, entry: Any, file: str) -> User:
    of = f"user {json.dumps(name)}"
    if not isinstance(entry, dict) or not is_role_name(name):
        raise AccessError(f"{of} is malformed", file=file)
    _check_keys(entry, _KEYS, of, file)
    verifier, publications = None, entry.get("publications")
    if "verifier" in entry:
        verifier = Verifier.parse(entry["verifier"])
        if verifier is None:
            raise AccessError(f"{of} has a malformed verifier, expected SCRAM-SHA-256$...", file=file)
    if publications is not None and not all(isinstance(publication, str) for publication in publications):
        raise AccessError(f"{of} has malformed publications, expected a list of names", file=file)
    names = None if publications is None else tuple(publications)
    return User(name, verifier, entry.get("replication", True), names, entry.get("physical", False))


def _check_keys(entry: Mapping[str, Any], kinds: Mapping[str, type], of: str, file: str) -> None:
    for key, value in entry.items():
        if key not in kinds:
            raise AccessError(f"{of} has an unknown key {json.dumps(key)}, expected {', '.join(kinds)}", file=file)
        if not isinstance(value, kinds[key]):
            raise AccessError(f"{of} has a malformed {json.dumps(key)}", file=file)


def is_role_name(name: str) -> bool:
    """Tell whether a text can be the name of a role."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= MOST_NAME_BYTES and "\0" not in name


def text_of(users: Users) -> str:
    """Return what the file of users has."""
    blocks = [f'{_HEAD}secret = "{users.secret.hex()}"\n']
    for user in users.by_name.values():
        lines = [f"[users.{_quoted(user.name)}]"]
        if user.verifier is not None:
            lines.append(f'verifier = "{user.verifier}"')
        if not user.may_replicate:
            lines.append("replication = false")
        if user.publications is not None:
            lines.append(f"publications = [{', '.join(map(_quoted, user.publications))}]")
        lines.append(f"physical = {'true' if user.may_copy_all else 'false'}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _quoted(text: str) -> str:
    """Return a basic string of TOML: one of JSON, but for the one control character that JSON leaves."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_users(path: Path, users: Users) -> None:
    """Write the file of users, whole, for its owner alone.

    Raises:
        AccessError: it cannot be written.
    """
    with errors_as(AccessError, "write the file of users", path):
        write_whole(path, [text_of(users).encode()], mode=0o600)


@contextmanager
def users_locked(path: Path) -> Iterator[Users]:
    """Hold the file of users against other commands that change it; give the users, none where it is not there.

    Raises:
        AccessError: it cannot be read, or is held by another process for seconds.
    """
    with errors_as(AccessError, "lock the file of users", path):
        descriptor = open_lock(path.with_name(f"{path.name}.lock"))
    try:
        if not lock_within(descriptor, LOCK_SECONDS):
            raise AccessError("the file of users is being changed by another process", file=str(path))
        yield read_users(path) if path.exists() else Users()
    finally:
        release(descriptor)
