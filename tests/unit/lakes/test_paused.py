"""Notes of a target about tables that are paused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import DecodingError, LakeConflictError, LakeError, LakeNameError, SegmentError, errors_of_table
from headwater.lakes.paused import NAME, PausedTable, PausedTables, paused_tables, stand_at
from headwater.landing.paused_tables import is_of_one_table


def test_tables_are_noted_and_removed(tmp_path: Path) -> None:
    assert paused_tables(tmp_path) == {}
    tables = PausedTables(tmp_path)
    tables.add(PausedTable(7, "public.a", "a value", lsn=0x10), None)
    tables.add(PausedTable(8, "public.b", "--exclude leaves it out", is_excluded=True), None)
    again = PausedTables(tmp_path).tables
    assert again == tables.tables
    assert (again[7].lsn, again[7].stands_at, again[7].state, again[8].state) == (0x10, None, "paused", "excluded")
    tables.say(8, "it was excluded until now")
    assert PausedTables(tmp_path).tables[8].state == "paused"
    assert tables.stand_at == {"public.a": 0, "public.b": 0}
    tables.remove([7, 99])
    assert PausedTables(tmp_path).oids == {8}


def test_of_several_tables_of_a_name_the_first_place_counts() -> None:
    tables = [PausedTable(1, "a", "", stands_at=20), PausedTable(2, "a", "", stands_at=10), PausedTable(3, "b", "")]
    assert stand_at(tables) == {"a": 10, "b": 0}


@pytest.mark.parametrize("text", ["[]", "{", '{"x": {}}', '{"7": {"name": "a"}}'])
def test_damaged_notes(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(LakeError, match="damaged"):
        PausedTables(tmp_path)


def test_what_is_the_matter_of_one_table() -> None:
    def raised(error: LakeError | DecodingError | SegmentError) -> LakeError | DecodingError | SegmentError:
        with pytest.raises(type(error)), errors_of_table(7, "public.a"):
            raise error
        return error

    assert raised(LakeError("refused")).table == (7, "public.a")
    assert is_of_one_table(raised(LakeError("refused")))
    assert is_of_one_table(raised(DecodingError("a value")))
    assert is_of_one_table(raised(LakeNameError("a name", file="lake")))
    assert not is_of_one_table(LakeError("refused"))
    assert not is_of_one_table(raised(LakeError("the disk is full", file="lake")))
    assert not is_of_one_table(raised(LakeConflictError("somebody else")))
    assert not is_of_one_table(raised(SegmentError("missing")))
