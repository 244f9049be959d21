"""The place of temporary files: in memory, if there is room, and nothing of them stays."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import files_in_memory
from files_in_memory import FilesInMemory, has_room


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Take a directory of the test's for memory, and little for much room."""
    monkeypatch.setattr(files_in_memory, "MEMORY", tmp_path)
    monkeypatch.setattr(files_in_memory, "NEEDED_BYTES", 1)
    monkeypatch.setattr(files_in_memory, "NEEDED_MEMORY", 1)
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    monkeypatch.setitem(os.environ, "TMPDIR", tempfile.gettempdir())
    return tmp_path


def test_room(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_room()
    monkeypatch.setattr(files_in_memory, "NEEDED_BYTES", 1 << 60)
    assert not has_room()
    monkeypatch.setattr(files_in_memory, "NEEDED_BYTES", 1)
    monkeypatch.setattr(files_in_memory, "NEEDED_MEMORY", 1 << 60)
    assert not has_room()
    monkeypatch.setattr(files_in_memory, "NEEDED_MEMORY", 1)
    monkeypatch.setattr(files_in_memory, "MEMORY", memory / "none")
    assert not has_room()


def test_temporary_files_are_there_until_the_end(memory: Path) -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(basetemp=None))
    files = FilesInMemory(config)
    with tempfile.NamedTemporaryFile() as file:
        assert memory in Path(file.name).parents
    assert memory in Path(config.option.basetemp).parents
    assert os.environ["TMPDIR"] == tempfile.gettempdir()
    files.pytest_unconfigure()
    assert list(memory.iterdir()) == []
