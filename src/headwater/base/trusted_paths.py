"""Checks that what lies at a path can only have been put there by root or by this user.

What is run or loaded (server programs and their libraries, the machine code of kernels) is looked at before it is used;
files of data are not, as reading them runs nothing (:mod:`headwater.base.value_codec`). For every directory on the way
from the root directory, and for what is used itself:

- its owner is root or this user;
- nobody else may write to it. A group of this user's name without other members is nobody else: with a umask of 002
  it may write to all that the user makes. A sticky directory such as /tmp may lie on the way if a directory follows: a
  file or link there could be another user's hard link to one of ours;
- a symbolic link is followed if its owner and place are such, and its target is looked at in the same way.

What passes cannot be changed by others afterwards, so nothing can happen between the look and the use; and the path
that comes back has no symbolic link in it. Standard library only, below all rooms. Known gaps: access lists that give
a named user what the group bits show; a user namespace without a number for root, where nothing passes.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from headwater.errors import UntrustedPathError

_ROOT = Path("/")
_MOST_LINKS = 40
_EXPECTED_MODE = "expected nobody else to be able to write to it"


def check_path(path: Path, beneath: Path | None = None) -> Path:
    """Look at a file or directory and at every directory on the way to it.

    Args:
        path: it.
        beneath: a directory above it that is trusted already, because this very program was loaded from there: the
            way begins there, and its owner may own the rest. None for the root directory.

    Returns:
        the same place, absolute and without symbolic links.

    Raises:
        UntrustedPathError: others than root and this user could have put it there.
        OSError: nothing is there.
    """
    start, owners = beneath or _ROOT, _owners(beneath)
    if beneath is None:
        _check_entry(_ROOT, os.lstat(_ROOT), owners)
    place = _walk(start, Path(os.path.abspath(path)).relative_to(start).parts, owners, 0)
    if _others_write(os.lstat(place)):
        raise _refusal(place, "can be written to by every user", _EXPECTED_MODE)
    return place


def check_tree(top: Path, beneath: Path | None = None) -> Path:
    """Look at a directory, at every directory on the way to it, and at everything below it.

    Args:
        top: the directory.
        beneath: as for :func:`check_path`.

    Returns:
        the directory, absolute and without symbolic links.

    Raises:
        UntrustedPathError: others than root and this user could have put something there.
        OSError: there is no such directory, or not all of it can be read.
    """
    place, owners = check_path(top, beneath), _owners(beneath)
    for directory, folders, files in os.walk(place, onerror=_raise):
        for name in (*folders, *files):
            path = Path(directory, name)
            status = os.lstat(path)
            _check_entry(path, status, owners)
            if stat.S_ISLNK(status.st_mode) and not path.resolve().is_relative_to(place):
                with suppress(FileNotFoundError):
                    check_path(path, beneath)
    return place


def check_private(path: Path, hint: str) -> None:
    """Look at a directory that this process has made for itself.

    Raises:
        UntrustedPathError: it belongs to somebody else, or others may enter it.
    """
    status = os.lstat(path)
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        actual = f"has owner {_user(status.st_uid)} and mode {stat.S_IMODE(status.st_mode):04o}"
        expected = f"expected a directory of {_user(os.geteuid())} with mode 0700"
        raise UntrustedPathError(f"the directory just made {actual}, {expected}", file=str(path), hint=hint)


def check_mode(path: Path, mode: int, hint: str) -> None:
    """Look at a directory that this process has made, where its file system may give it another owner.

    Raises:
        UntrustedPathError: others may do more than the mode says.
    """
    actual = stat.S_IMODE(os.lstat(path).st_mode)
    if actual & 0o777 & ~mode:
        raise UntrustedPathError(
            f"the directory just made has mode {actual:04o}, expected {mode:04o}", file=str(path), hint=hint
        )


def make_directory(path: Path, mode: int) -> None:
    """Make a directory and those above it that are missing, with just this mode whatever the umask.

    Raises:
        OSError: it cannot be made.
    """
    if path.is_dir():
        return
    make_directory(path.parent, mode)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, mode)


def _walk(place: Path, names: Iterable[str], owners: Collection[int], links: int) -> Path:
    """Follow names from a place that has passed, and return where they lead to."""
    for name in names:
        if name == "..":
            place = place.parent
            continue
        entry = place / name
        status = os.lstat(entry)
        _check_entry(entry, status, owners)
        if _others_write(os.lstat(place)) and not stat.S_ISDIR(status.st_mode):
            raise _refusal(entry, "lies in a directory that every user can write to", "expected a directory there")
        place = _follow(place, entry, owners, links + 1) if stat.S_ISLNK(status.st_mode) else entry
    return place


def _follow(at: Path, link: Path, owners: Collection[int], links: int) -> Path:
    if links > _MOST_LINKS:
        raise _refusal(link, "is one symbolic link of too many", f"expected {_MOST_LINKS} at most")
    target = Path(os.readlink(link))
    return (
        _walk(_ROOT, target.parts[1:], owners, links)
        if target.is_absolute()
        else _walk(at, target.parts, owners, links)
    )


def _owners(beneath: Path | None) -> Collection[int]:
    """Return the numbers of the users who may own what is used."""
    return {0, os.geteuid()} if beneath is None else {0, os.geteuid(), os.stat(beneath).st_uid}


def _check_entry(path: Path, status: os.stat_result, owners: Collection[int]) -> None:
    if status.st_uid not in owners:
        names = " or ".join(_user(owner) for owner in sorted(owners))
        raise _refusal(path, f"belongs to {_user(status.st_uid)}", f"expected {names}")
    if not stat.S_ISLNK(status.st_mode) and _others_write(status) and not _is_sticky_directory(status):
        mode = f"{stat.S_IMODE(status.st_mode):04o}, group {status.st_gid}"
        raise _refusal(path, f"can be written to by others (mode {mode})", _EXPECTED_MODE)


def _is_sticky_directory(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)


def _others_write(status: os.stat_result) -> bool:
    """Tell whether anybody but root and this user may write there."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)


def _is_own_group(number: int) -> bool:
    """Tell whether a group is named after root or this user, and has no other members.

    The name counts because not every directory service lists the accounts whose first group it is.
    """
    accounts = pwd.getpwall()
    ours = {account.pw_name for account in accounts if account.pw_uid in (0, os.geteuid())}
    try:
        group = grp.getgrgid(number)
    except KeyError:
        return False
    members = {*group.gr_mem, *(account.pw_name for account in accounts if account.pw_gid == number)}
    return group.gr_name in ours and members <= ours


def _user(number: int) -> str:
    try:
        return f'"{pwd.getpwuid(number).pw_name}"'
    except KeyError:
        return f"user {number}"


def _refusal(path: Path, fault: str, expected: str) -> UntrustedPathError:
    return UntrustedPathError(
        f'"{path}" {fault}, {expected}',
        hint="have its owner and mode set right (chown, chmod go-w), or use another directory",
    )


def _raise(error: OSError) -> None:
    raise error
