"""Slots in a list: every name as it is, whatever is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.slot import LISTED, ListFlags, list_command
from headwater.slots.slot import Slot, SlotRequest
from headwater.slots.slot_directory import create_slot


def test_names_are_printed_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in a name is markup, and nothing is cut off, where there is no terminal either."""
    made = [("a[bold]", "b[/x]"), ("c:smile:", "größe"), ("n" * 200, "d" * 63)]
    for name, database in made:
        create_slot(tmp_path / name, Slot(SlotRequest((), "", database, "rows"), 0x1000028, None))
    list_command.run(ListFlags(tmp_path))
    header, *lines = capsys.readouterr().out.splitlines()
    assert tuple(header.split()) == LISTED
    assert [line.split() for line in lines] == [
        [name, "rows", database, "no", "0/1000028", "0/1000028"] for name, database in made
    ]
    assert len({line.index("rows") for line in lines}) == 1
