"""Columns in the lake follow those of the source, and never hold another one's values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.errors import LakeError
from headwater.lakes.lake_schema import COLUMN_MARK, EVOLVE, FAIL, LakeColumn, LakeSchema, evolved, taken_over

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
RESERVED = ("_op", "_lsn")


def follow(
    lake: LakeSchema | None, *columns: tuple[str, int, pa.DataType], policy: str = EVOLVE, widens: bool = True
) -> LakeSchema:
    lake_columns = [LakeColumn(*column) for column in columns]
    return evolved(lake, 16384, lake_columns, RESERVED, policy, "public.t", widens=widens)


def names(lake: LakeSchema) -> dict[str, tuple[int, pa.DataType]]:
    return {column.name: (column.number, column.type) for column in lake.columns}


def test_a_renamed_column_keeps_its_name_in_the_lake() -> None:
    lake = follow(None, ("id", 1, INT), ("note", 2, TEXT))
    assert follow(lake, ("id", 1, INT), ("remark", 2, TEXT)) == lake


def test_a_column_that_was_dropped_stays() -> None:
    lake = follow(None, ("id", 1, INT), ("note", 2, TEXT))
    assert follow(lake, ("id", 1, INT)) == lake


def test_a_column_that_was_made_again_is_another_one() -> None:
    lake = follow(follow(None, ("id", 1, INT), ("note", 2, TEXT)), ("id", 1, INT), ("note", 3, TEXT))
    assert names(lake) == {"id": (1, INT), "note": (2, TEXT), "note_2": (3, TEXT)}


def test_names_differ_by_more_than_case_and_from_those_of_changes() -> None:
    lake = follow(None, ("a", 1, INT), ("A", 2, INT), ("_Op", 3, TEXT))
    assert names(lake) == {"a": (1, INT), "A_2": (2, INT), "_Op_2": (3, TEXT)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int16(), LONG),
        (INT, LONG),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(9, 2)),
    ],
)
def test_types_are_widened_and_stay_so(old: pa.DataType, new: pa.DataType) -> None:
    lake = follow(follow(None, ("v", 1, old)), ("v", 1, new))
    assert names(lake) == {"v": (1, new)}
    assert follow(lake, ("v", 1, old)) == lake


@pytest.mark.parametrize(
    ("old", "new"), [(INT, TEXT), (TEXT, INT), (pa.decimal128(5, 2), pa.decimal128(9, 3)), (LONG, pa.float64())]
)
def test_other_types_are_new_columns_and_old_ones_are_found_again(old: pa.DataType, new: pa.DataType) -> None:
    lake = follow(follow(None, ("v", 1, old)), ("v", 1, new))
    assert names(lake) == {"v": (1, old), "v_2": (1, new)}
    assert follow(lake, ("v", 1, old)) == lake
    assert [lake.holding(LakeColumn("v", 1, type)).name for type in (old, new)] == ["v", "v_2"]


def test_changes_can_be_refused() -> None:
    lake = follow(None, ("id", 1, INT))
    assert follow(lake, ("key", 1, INT), policy=FAIL) == lake
    with pytest.raises(LakeError, match=r"public\.t has other columns than in the lake: more"):
        follow(lake, ("id", 1, INT), ("more", 2, INT), policy=FAIL)


def test_another_table_of_the_same_name_is_refused() -> None:
    with pytest.raises(LakeError, match="another table now: its OID is 16384, that of the one in the lake 99"):
        follow(LakeSchema(99, ()), ("id", 1, INT))


def test_where_no_column_has_said_it_a_table_is_any() -> None:
    assert follow(LakeSchema.of(pa.schema([("_lsn", LONG)])), ("id", 1, INT)) == follow(None, ("id", 1, INT))


def test_fields_say_whose_columns_they_are() -> None:
    lake = follow(None, ("id", 1, INT), ("tags", 2, pa.list_(pa.field("element", pa.decimal128(5, 2)))))
    assert LakeSchema.of(pa.schema([pa.field("_lsn", LONG), *lake.fields])) == lake
    assert LakeSchema.of(pa.schema([("_lsn", LONG)])) == LakeSchema(0, ())


@pytest.mark.parametrize("marks", [[b"x"], [b"1"], [b"1.x"], [b"1.1", b"2.1"]])
def test_fields_that_say_something_else(marks: list[bytes]) -> None:
    fields = [pa.field(f"c{at}", INT, metadata={b"headwater.column": mark}) for at, mark in enumerate(marks)]
    with pytest.raises(LakeError, match="not as headwater marks them"):
        LakeSchema.of(pa.schema(fields))


def test_where_columns_are_not_widened_they_are_other_ones() -> None:
    lake = follow(None, ("id", 1, INT))
    wider = follow(lake, ("id", 1, LONG), widens=False)
    assert names(wider) == {"id": (1, INT), "id_2": (1, LONG)}
    assert wider.holding(LakeColumn("id", 1, LONG)).name == "id_2"
    assert follow(wider, ("id", 1, INT), widens=False) == wider


def test_another_table_takes_the_columns_over_by_their_names() -> None:
    lake = follow(follow(None, ("id", 1, INT), ("n", 2, INT), ("gone", 3, TEXT)), ("id", 1, INT), ("n", 2, TEXT))
    columns = [LakeColumn("n", 1, TEXT), LakeColumn("more", 2, INT), LakeColumn("id", 3, INT)]
    taken = taken_over(lake, columns)
    assert {column.name: column.number for column in taken.columns if column.number > 0} == {"id": 3, "n": 1, "n_2": 1}
    assert taken.oid == lake.oid
    newer = evolved(taken, 20000, columns, RESERVED, EVOLVE, "public.t", former=frozenset({16384, 20000}))
    assert names(newer)["more"] == (2, INT)
    assert newer.holding(columns[0]).name == "n_2"
    assert taken_over(newer, columns) == newer
    assert LakeSchema.of(pa.schema(newer.fields)) == newer
    with pytest.raises(LakeError, match=r"public\.t is another table now: its OID is 20000"):
        evolved(taken, 20000, columns, RESERVED, EVOLVE, "public.t")


def test_columns_that_were_renamed_keep_their_names() -> None:
    """Also where nothing is in their way any more, and where the mark of earlier versions does not say why."""
    old = pa.field("_xid_2", pa.int32(), metadata={COLUMN_MARK: b"16384.1"})
    lake = LakeSchema.of(pa.schema([pa.field("_xid", pa.int64()), old]))
    again = evolved(lake, 16384, [LakeColumn("_xid", 1, pa.int32()), LakeColumn("v", 2, pa.string())], (), EVOLVE, "t")
    assert [column.name for column in again.columns] == ["_xid_2", "v"]
    assert again.renamed == {}


def test_a_renamed_column_says_what_it_was_called() -> None:
    columns = [LakeColumn("a.b", 1, pa.int32()), LakeColumn("A.B", 2, pa.int32()), LakeColumn("c", 3, pa.int32())]
    lake = evolved(None, 16384, columns, (), EVOLVE, "t")
    assert lake.renamed == {"A.B_2": "A.B"}
    assert LakeSchema.of(pa.schema(lake.fields)) == lake
