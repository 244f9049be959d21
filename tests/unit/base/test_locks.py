"""Locks on files, among processes."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

import pytest

from headwater.base.locks import lock, lock_within, open_lock, release


def test_one_has_a_lock_and_others_not(tmp_path: Path) -> None:
    holder, other = open_lock(tmp_path / "lock"), open_lock(tmp_path / "lock")
    assert (lock(holder), lock(other), lock(other, is_shared=True)) == (True, False, False)
    os.close(holder)
    assert lock(other)
    release(other)


def test_several_share_a_lock(tmp_path: Path) -> None:
    holder, other = open_lock(tmp_path / "lock"), open_lock(tmp_path / "lock")
    assert (lock(holder, is_shared=True), lock(other, is_shared=True), lock(other)) == (True, True, False)
    release(holder)
    assert lock(other)
    release(other)


def test_a_lock_is_waited_for_as_long_as_is_said(tmp_path: Path) -> None:
    holder, other = open_lock(tmp_path / "lock"), open_lock(tmp_path / "lock")
    assert lock_within(holder, 0)
    before = time.monotonic()
    assert not lock_within(other, 0.1)
    assert time.monotonic() - before >= 0.1
    release(holder)
    assert lock_within(other, 0)
    release(other)


def test_a_released_lock_is_free_though_a_fork_has_the_file(tmp_path: Path) -> None:
    holder, other = open_lock(tmp_path / "lock"), open_lock(tmp_path / "lock")
    assert lock(holder)
    copy = os.dup(holder)
    release(holder)
    assert lock(other)
    os.close(copy)
    release(other)


def test_where_files_cannot_be_locked_the_system_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    descriptor = open_lock(tmp_path / "lock")
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        lock(descriptor)
    os.close(descriptor)


def test_lock_files_are_no_links_and_for_nobody_else(tmp_path: Path) -> None:
    os.close(open_lock(tmp_path / "lock"))
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "lock")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_lock(tmp_path / "link")
