"""Paths that others could have planted something at are refused, as root and as an ordinary user.

Directories of tests lie below pytest's own, which only this user can write to. As root there is another owner too.
"""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from headwater.base.trusted_paths import check_mode, check_path, check_private, check_tree, make_directory
from headwater.errors import UntrustedPathError

AS_ROOT = os.geteuid() == 0
OTHER_MODES = [0o777, 0o757, 0o702]
if AS_ROOT:
    OTHER_MODES.append(0o770)


def give_away(path: Path) -> None:
    """Give a path to another user and another group; links themselves and not what they lead to."""
    account = pwd.getpwnam("nobody")
    os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Make ``top/bin/postgres``."""
    program = tmp_path / "top" / "bin" / "postgres"
    make_directory(program.parent, 0o755)
    program.write_text("")
    program.chmod(0o755)
    return program


def refused(path: Path, *pieces: str) -> None:
    with pytest.raises(UntrustedPathError) as caught:
        check_path(path)
    line = caught.value.one_line()
    assert [piece for piece in (*pieces, "expected ", "; ") if piece not in line] == [], line


def test_what_passes_comes_back_without_links(place: Path, tmp_path: Path) -> None:
    assert check_path(place) == place.resolve()
    (tmp_path / "link").symlink_to("top/../top")
    assert check_path(tmp_path / "link" / "bin") == place.parent.resolve()
    (place.parent / "postmaster").symlink_to(place)
    assert check_path(place.parent / "postmaster") == place.resolve()
    assert check_path(Path("/")) == Path("/")
    assert check_tree(tmp_path) == tmp_path.resolve()


@pytest.mark.parametrize("mode", OTHER_MODES)
@pytest.mark.parametrize("levels", range(3))
def test_others_may_write(place: Path, levels: int, mode: int) -> None:
    """To the program, its directory, or one above."""
    opened = place if levels == 0 else place.parents[levels - 1]
    if AS_ROOT:
        os.chown(opened, -1, pwd.getpwnam("nobody").pw_gid)
    opened.chmod(mode)
    refused(place, f'"{opened.resolve()}"', f"mode {mode:04o}")
    with pytest.raises(UntrustedPathError):
        check_tree(place.parents[1])


def test_the_group_of_ones_own_name_may_write(place: Path) -> None:
    """As under a umask of 002, unless the group has other members."""
    account = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(account.pw_gid)
    shared = {other.pw_name for other in pwd.getpwall() if other.pw_gid == group.gr_gid} | {*group.gr_mem}
    for path in (place, *place.parents[:2]):
        path.chmod(0o775)
    if group.gr_name == account.pw_name and shared <= {account.pw_name, "root"}:
        assert check_path(place) == check_tree(place.parents[1]) / "bin" / "postgres"
    else:
        refused(place, "can be written to by others (mode 0775")


@pytest.mark.skipif(not AS_ROOT, reason="only root can give files away; modes stand for it otherwise")
@pytest.mark.parametrize("levels", range(3))
def test_another_owner(place: Path, levels: int) -> None:
    given = place if levels == 0 else place.parents[levels - 1]
    give_away(given)
    refused(place, f'"{given.resolve()}" belongs to "nobody"', 'expected "root"')


def test_a_sticky_directory_may_lie_above_a_directory(tmp_path: Path) -> None:
    sticky = tmp_path / "sticky"
    (sticky / "own").mkdir(parents=True)
    sticky.chmod(0o1777)
    assert check_path(sticky / "own") == (sticky / "own").resolve()
    refused(sticky, f'"{sticky.resolve()}" can be written to')
    (sticky / "file").write_text("")
    refused(sticky / "file", "lies in a directory that every user can write to")
    (sticky / "link").symlink_to(tmp_path)
    refused(sticky / "link", "lies in a directory that every user can write to")


def test_a_link_into_an_open_directory(place: Path, tmp_path: Path) -> None:
    planted = tmp_path / "open"
    planted.mkdir()
    (planted / "postgres").write_text("")
    planted.chmod(0o777)
    place.unlink()
    place.symlink_to(planted / "postgres")
    refused(place, f'"{planted.resolve()}" can be written to')
    with pytest.raises(UntrustedPathError):
        check_tree(place.parents[1])


@pytest.mark.skipif(not AS_ROOT, reason="only root can give links away")
def test_a_link_of_another_owner(place: Path) -> None:
    link = place.with_name("postmaster")
    link.symlink_to("postgres")
    give_away(link)
    refused(link, f'"{link.parent.resolve() / link.name}" belongs to "nobody"')
    with pytest.raises(UntrustedPathError):
        check_tree(place.parent)


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    refused(tmp_path / "one", "symbolic link")


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_path(tmp_path / "none")
    (tmp_path / "dangling").symlink_to("none")
    assert check_tree(tmp_path) == tmp_path.resolve()


def test_a_trusted_beginning_is_not_looked_at(place: Path) -> None:
    """The place that this very program came from counts, whoever may write above it."""
    place.parents[2].chmod(0o777)
    assert check_path(place, beneath=place.parents[1]) == place
    place.chmod(0o777)
    with pytest.raises(UntrustedPathError):
        check_path(place, beneath=place.parents[1])


def test_private_is_what_nobody_else_may_enter(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    check_private(tmp_path / "own", "")
    (tmp_path / "own").chmod(0o750)
    with pytest.raises(UntrustedPathError, match=r"mode 0750, expected a directory of .* with mode 0700.*; choose"):
        check_private(tmp_path / "own", "choose another")


def test_a_mode_that_is_not_kept(tmp_path: Path) -> None:
    """Whose directory it is does not matter: on some file systems it is another user's than the one that made it."""
    (tmp_path / "made").mkdir(mode=0o700)
    check_mode(tmp_path / "made", 0o711, "")
    (tmp_path / "made").chmod(0o755)
    with pytest.raises(UntrustedPathError, match=r"has mode 0755, expected 0711 .*; choose"):
        check_mode(tmp_path / "made", 0o711, "choose another")


def test_directories_are_made_with_their_mode(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        make_directory(tmp_path / "a" / "b", 0o755)
    finally:
        os.umask(before)
    assert [(tmp_path / part).stat().st_mode & 0o777 for part in ("a", "a/b")] == [0o755, 0o755]
