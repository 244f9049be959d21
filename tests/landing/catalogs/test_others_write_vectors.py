"""Tables of format 3 that another program writes to, by Iceberg's own parts, while rows land (``make test-lakes``)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from headwater.errors import LakeConflictError
from headwater.lakes.iceberg_table import IcebergFormat
from landing.catalogs.named_catalogs import Named
from landing.catalogs.rest_server import iceberg_jars, rest_server
from landing.iceberg_lakes import THIRD, Lake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

_SOURCE = Path(__file__).with_name("OtherWriter.java")


class Other:
    """The other program.

    Args:
        jars: Iceberg's; address: of the catalog.
    """

    def __init__(self, jars: Path, address: str) -> None:
        self._jars, self._address = jars, address

    def writes(self, *words: str) -> list[list[int]]:
        """Have it write to the table; gives the numbers of each line that it says."""
        classes = f"{self._jars}/*:{Path(pyspark.__file__).parent}/jars/*"
        command = ["java", "-Xmx256m", "-cp", classes, str(_SOURCE), self._address, "public", "t", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [list(map(int, line.split())) for line in done.stdout.splitlines()]


@pytest.fixture
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Lake, Other]]:
    jars = iceberg_jars(request.config)
    with (
        rest_server(jars, tmp_path / "warehouse") as address,
        Named("others", {"type": "rest", "uri": address}).configured(),
    ):
        lake = Lake(tmp_path, IcebergFormat(tmp_path, "others", deletes_beside=True), **THIRD)
        yield lake, Other(jars, address)
        lake.format.close()


def test_another_program_deletes_and_rewrites(other: tuple[Lake, Other]) -> None:
    """Its vectors, several in one file, are kept to and taken over; its rewriting is noticed; and it reads ours."""
    lake, program = other
    first, second = lake.written(1, 2, 3, 4), lake.written(5, 6, 7)
    lake.commit(1, [first, second], {}, ())
    lake.commit(2, [], {first.path: [0]}, ())
    program.writes("delete", "2")
    lake.table = lake.opened()
    lake.require([2, 4, 5, 6])
    third = lake.written(8, 9)
    lake.commit(3, [third], {first.path: [1]}, ())
    lake.require([4, 5, 6, 8, 9])
    numbers = {row: number for row, number in program.writes("numbers")}  # noqa: C416  # of lists
    assert {row: numbers[row] for row in (4, 5, 6)} == {4: 3, 5: 4, 6: 5}
    assert set(numbers) == {4, 5, 6, 8, 9}
    assert len(set(numbers.values())) == 5
    lake.written(10)
    program.writes("rewrite")
    with pytest.raises(LakeConflictError):
        lake.commit(4, [], {second.path: [0]}, ())
    lake.table = lake.opened()
    lake.require([4, 5, 6, 8, 9])
    (file,) = lake.table.files
    lake.written(10)
    lake.commit(4, [], {file: [0]}, ())
    assert len(lake.ids) == 4
    assert sorted(row for row, _ in program.writes("numbers")) == lake.ids
