"""Layouts: transforms as Iceberg's own library makes them, rows apart and in order, names of directories."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    UUIDType,
)

from headwater.errors import LakeError, UsageError
from headwater.lakes.layout.hive_paths import NULL, hive_path
from headwater.lakes.layout.table_layout import SortField, TableLayout
from headwater.lakes.layout.transforms import PartitionField
from headwater.lakes.settings.table_settings import TableSettings

CHANCE = random.Random(7)
WORDS = ["", "a", "ab", "abc", "abcd", "iceberg", "ü𝄞x", "x" * 100]
TEXTS = WORDS + ["".join(CHANCE.choices("abü€ ", k=CHANCE.randrange(12))) for _ in range(50)]
NUMBERS = [0, 1, -1, 34, *(CHANCE.randrange(-(2**31) + 99, 2**31) for _ in range(50))]
MOMENTS = [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2017, 11, 16, 22, 31, 8), datetime(1, 1, 1)]
UUIDS = [uuid.UUID(int=CHANCE.getrandbits(128)) for _ in range(20)]
COLUMNS: dict[str, tuple[pa.Array[Any], IcebergType, list[Any]]] = {
    "int": (pa.array(NUMBERS, pa.int32()), IntegerType(), NUMBERS),
    "long": (pa.array([2**30 * number for number in NUMBERS[:30]]), LongType(), [2**30 * n for n in NUMBERS[:30]]),
    "text": (pa.array(TEXTS), StringType(), TEXTS),
    "decimal": (
        pa.array([Decimal(number).scaleb(-2) for number in NUMBERS], pa.decimal128(12, 2)),
        DecimalType(12, 2),
        [Decimal(number).scaleb(-2) for number in NUMBERS],
    ),
    "date": (
        pa.array([moment.date() for moment in MOMENTS]),
        DateType(),
        [(moment.date() - date(1970, 1, 1)).days for moment in MOMENTS],
    ),
    "timestamp": (
        pa.array(MOMENTS, pa.timestamp("us")),
        TimestampType(),
        [(moment - datetime(1970, 1, 1)) // timedelta(microseconds=1) for moment in MOMENTS],
    ),
    "time": (pa.array([time(22, 31, 8)], pa.time64("us")), TimeType(), [81068000000]),
    "uuid": (
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([own.bytes for own in UUIDS], pa.binary(16))),
        UUIDType(),
        UUIDS,
    ),
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("kind", ["bucket", "truncate", "year", "month", "day", "hour"])
def test_transforms_are_icebergs(column: str, kind: str) -> None:
    values, type, plain = COLUMNS[column]
    width = {"bucket": 16, "truncate": 3}.get(kind, 0)
    field = PartitionField(kind, "c", width)
    transform: Any = parse_transform(f"{kind}[{width}]" if width else kind)
    if not field.takes(values.type):
        assert column == "uuid" or not transform.can_transform(type)
        return
    of_library = transform.transform(type)
    expected = [of_library(value) for value in plain]
    texts = [transform.to_human_string(type, value) for value in expected] if not width else list(map(str, expected))
    assert field.texts(values).to_pylist() == texts
    assert field.texts(pa.nulls(2, values.type)).to_pylist() == [None, None]


def test_fields_are_read_as_they_are_written() -> None:
    assert PartitionField.parse(' Bucket( 16 , "a ""b" ) ') == PartitionField("bucket", 'a "b', 16)
    assert PartitionField.parse("region").name == "region"
    assert PartitionField.parse("day(made)").name == "made_day"
    assert SortField.parse("id desc") == SortField("id", descending=True, nulls_first=True)
    assert SortField.parse('"a b" ASC NULLS FIRST') == SortField("a b", nulls_first=True)
    for wrong in ("", "id down", "id desc nulls", "a, b"):
        with pytest.raises(UsageError):
            SortField.parse(wrong)


def test_texts_that_mean_the_same_are_one_setting() -> None:
    own = TableSettings(
        "t", partition=("bucket(16,id)", '"region"', 'DAY( "a b" )'), sort=("ID  asc", "x DESC nulls first")
    )
    assert own.partition == ("bucket(16, id)", "region", 'day("a b")')
    assert own.sort == ("ID", "x desc")
    for text in ('"a ""b" nulls first', "a desc nulls last", '"desc" desc'):
        assert SortField.parse(SortField.parse(text).text) == SortField.parse(text)
    assert TableSettings("t", partition=own.partition, sort=own.sort).fixed == own.fixed


def test_rows_apart_and_in_order() -> None:
    moments = [datetime(2026, 11, day, 23, tzinfo=UTC) for day in (1, 2, 1, 2)]
    rows = pa.table({"id": [1, 2, 3, 4], "at": moments, "f": [1.0, float("nan"), None, 2.0]})
    layout = TableLayout((PartitionField.parse("day(at)"), PartitionField.parse("bucket(1, id)")))
    parts = {partition: numbers.tolist() for partition, numbers in layout.partitions(rows)}
    assert parts == {("2026-11-01", "0"): [0, 2], ("2026-11-02", "0"): [1, 3]}
    assert {partition: own["id"].to_pylist() for partition, own in layout.apart(rows)} == {
        partition: [number + 1 for number in numbers] for partition, numbers in parts.items()
    }
    assert not list(layout.partitions(rows.slice(0, 0)))
    assert not list(layout.apart(rows.slice(0, 0)))
    ways = {"f": [1, 4, 2, 3], "f desc": [3, 2, 4, 1], "f desc nulls last": [2, 4, 1, 3]}
    for text, ids in ways.items():
        assert TableLayout(sort=(SortField.parse(text),)).sorted(rows)["id"].to_pylist() == ids
    many = pa.table({"id": np.arange(100_000), "at": pa.nulls(100_000, pa.date32())})
    wide = TableLayout((PartitionField.parse("at"), PartitionField.parse("truncate(10, id)")))
    assert sum(len(numbers) for _, numbers in wide.partitions(many)) == 100_000


def test_names_of_directories() -> None:
    layout = TableLayout((PartitionField.parse("region"),))
    assert hive_path(layout, (None,)) == f"region={NULL}/"
    assert hive_path(layout, ("us/west %=é",)) == "region=us%2Fwest%20%25%3D%C3%A9/"
    assert unquote(hive_path(layout, (NULL,))) == f"region={NULL}/" != hive_path(layout, (NULL,))
    with pytest.raises(LakeError, match="at most"):
        hive_path(layout, ("x" * 300,))
