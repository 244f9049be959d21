"""Whole files: each is what it was, or what it becomes, and nothing stays beside it."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.base.whole_files import move_whole, sync_tree, write_if_absent, write_whole


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def cut_off() -> Iterator[bytes]:
    """Give pieces of which the second cannot be made."""
    yield b"one"
    raise KeyboardInterrupt


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the calls that make files last, in their order; fsync with what it syncs."""
    calls: list[str] = []
    fsync, replace, link = os.fsync, os.replace, os.link

    def note(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        calls.append(f"fsync {re.sub('[0-9a-f]{16}', 'RANDOM', name)}")
        fsync(descriptor)

    def note_replace(part: Path, path: Path) -> None:
        calls.append("replace")
        replace(part, path)

    def note_link(part: Path, path: Path) -> None:
        calls.append("link")
        link(part, path)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "replace", note_replace)
    monkeypatch.setattr(os, "link", note_link)
    return calls


def test_a_file_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert write_whole(path, [b"one"]) == 3
    assert write_whole(path, (b"tw", b"o", b"!")) == 4
    assert (path.read_bytes(), names(tmp_path)) == (b"two!", ["file"])


def test_the_file_is_synced_before_its_name_and_the_directory_behind(tmp_path: Path, synced: list[str]) -> None:
    write_whole(tmp_path / "file", [b"one"])
    write_if_absent(tmp_path / "other", [b"one"])
    names_of_parts = ["fsync file.part", "replace"], ["fsync other.RANDOM.part", "link"]
    assert synced == [*names_of_parts[0], f"fsync {tmp_path.name}", *names_of_parts[1], f"fsync {tmp_path.name}"]


def test_what_need_not_last_is_not_synced(tmp_path: Path, synced: list[str]) -> None:
    write_whole(tmp_path / "file", [b"one"], is_lasting=False)
    assert synced == ["replace"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "file"
    write_whole(path, [b"one"])

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, [b"two"])
    assert (path.read_bytes(), names(tmp_path)) == (b"one", ["file"])


def test_what_is_interrupted_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, [b"before"])
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, cut_off())
    assert (path.read_bytes(), names(tmp_path)) == (b"before", ["file"])


def test_what_a_killed_process_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"longer than what comes")
    write_whole(tmp_path / "file", [b"one"])
    assert ((tmp_path / "file").read_bytes(), names(tmp_path)) == (b"one", ["file"])


def test_no_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"mine")
    (tmp_path / "file.part").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        write_whole(tmp_path / "file", [b"one"])
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"


def test_two_that_write_a_file_at_once_write_it_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    is_writing = threading.Event()
    is_waiting: list[bool] = []

    def halves() -> Iterator[bytes]:
        yield b"the first "
        is_writing.set()
        second.join(0.2)
        is_waiting.append(second.is_alive())
        yield b"and its other half"

    def write_second() -> None:
        is_writing.wait()
        write_whole(path, [b"the second"])

    second = threading.Thread(target=write_second)
    second.start()
    write_whole(path, halves())
    second.join()
    assert (is_waiting, path.read_bytes(), names(tmp_path)) == ([True], b"the second", ["file"])


def test_a_file_whose_other_name_was_left_is_not_written_over(tmp_path: Path) -> None:
    write_if_absent(tmp_path / "file", [b"one"])
    os.link(tmp_path / "file", tmp_path / "file.0000000000000000.part")
    with pytest.raises(FileExistsError):
        write_if_absent(tmp_path / "file", [b"two"])
    assert (tmp_path / "file").read_bytes() == b"one"


def test_files_have_the_mode_that_is_asked_for(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", [b"one"], 0o600)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_if_absent(path, [b"o", b"ne"])
    with pytest.raises(FileExistsError):
        write_if_absent(path, [b"two"])
    assert (path.read_bytes(), names(tmp_path)) == (b"one", ["file"])


def test_trees_are_synced_from_within(tmp_path: Path, synced: list[str]) -> None:
    top = tmp_path / "top"
    (top / "folder").mkdir(parents=True)
    (top / "folder" / "file").write_bytes(b"one")
    sync_tree(top)
    move_whole(top, tmp_path / "place")
    assert synced == ["fsync file", "fsync folder", "fsync top", "replace", f"fsync {tmp_path.name}"]
    assert (tmp_path / "place" / "folder" / "file").read_bytes() == b"one"
