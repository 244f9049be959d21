"""PostGIS values as its own functions print them; needs Debian's server with PostGIS (``make postgis``)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headwater.catalog.relation import TypeInfo
from headwater.catalog.type_names import type_name_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms
from values.text_comparison import compare_values

pytestmark = pytest.mark.server
_SHAPES = ["", "Z", "M", "ZM"]


@pytest.fixture(scope="module")
def postgis(with_postgis: ServerPrograms) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(with_postgis, autovacuum=False) as running:
        yield running


@pytest.fixture(scope="module")
def connection(postgis: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with postgis.connect() as opened:
        opened.execute("CREATE EXTENSION postgis")
        opened.execute("set client_encoding = 'utf8'")
        yield opened


class _Wkt:
    """Random shapes as well-known text, all with as many coordinates a point."""

    def __init__(self, r: random.Random, dimensions: str) -> None:
        self._r = r
        self._size = 2 + len(dimensions)
        self._mark = f" {dimensions} " if dimensions else ""

    def point(self) -> str:
        return " ".join(repr(round(self._r.uniform(-80, 80), self._r.randrange(16))) for _ in range(self._size))

    def points(self, count: int) -> str:
        return "(" + ", ".join(self.point() for _ in range(count)) + ")"

    def ring(self, count: int) -> str:
        first = self.point()
        return "(" + ", ".join([first, *(self.point() for _ in range(count - 2)), first]) + ")"

    def rings(self) -> str:
        return "(" + ", ".join(self.ring(self._r.randrange(4, 7)) for _ in range(self._r.randrange(1, 4))) + ")"

    def shape(self, depth: int = 2) -> str:
        r, mark = self._r, self._mark
        kind = r.randrange(13 if depth else 8)
        if r.random() < 0.08:
            return f"{r.choice(['POINT', 'LINESTRING', 'POLYGON', 'MULTIPOINT', 'GEOMETRYCOLLECTION'])}{mark} EMPTY"
        simple = [
            lambda: f"POINT{mark}({self.point()})",
            lambda: f"LINESTRING{mark}{self.points(r.randrange(2, 9))}",
            lambda: f"POLYGON{mark}{self.rings()}",
            lambda: f"MULTIPOINT{mark}{self.points(r.randrange(1, 5))}",
            lambda: f"MULTILINESTRING{mark}({self.points(2)}, {self.points(3)})",
            lambda: f"MULTIPOLYGON{mark}({self.rings()}, {self.rings()})",
            lambda: f"CIRCULARSTRING{mark}{self.points(3)}",
            lambda: f"TRIANGLE{mark}({self.ring(4)})",
            lambda: f"CURVEPOLYGON{mark}(CIRCULARSTRING{mark}{self.ring(5)})",
            lambda: f"TIN{mark}(({self.ring(4)}), ({self.ring(4)}))",
            lambda: f"POLYHEDRALSURFACE{mark}({self.rings()})",
        ]
        if kind < len(simple):
            return simple[kind]()
        inner = ", ".join(self.shape(depth - 1) for _ in range(r.randrange(1, 4)))
        return f"GEOMETRYCOLLECTION{mark}({inner})"


def _values(r: random.Random, prefix: str) -> list[str]:
    return [prefix + _Wkt(r, r.choice(_SHAPES)).shape() for _ in range(800)]


@pytest.mark.parametrize("srid", ["", "SRID=4326;", "SRID=998999;"])
def test_geometry(postgis: EmbeddedPostgres, connection: psycopg.Connection[Any], srid: str) -> None:
    values = _values(random.Random(srid), srid)
    compare_values(postgis, connection, "geometry", values)
    compare_values(
        postgis, connection, "geometry[]", ['{"' + value.replace(",", ", ") + '":NULL}' for value in values[:50]]
    )


def test_geography(postgis: EmbeddedPostgres, connection: psycopg.Connection[Any]) -> None:
    simple = ("POINT", "LINESTRING", "POLYGON", "MULTI", "GEOMETRYCOLLECTION")
    values = [value for value in _values(random.Random(7), "") if value.startswith(simple)]
    plain = [v for v in values if not any(word in v for word in ("CURVE", "CIRCULAR", "TIN", "TRIANGLE", "POLYHEDRAL"))]
    assert len(plain) > 100
    compare_values(postgis, connection, "geography", plain)


SHAPES = (
    *("Geometry", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "CircularString"),
    *("GeometryCollection", "CompoundCurve", "CurvePolygon", "MultiCurve", "MultiSurface", "PolyhedralSurface"),
    *("Triangle", "Tin"),
)


@pytest.mark.parametrize("name", ["geometry", "geography"])
def test_modifiers_of_types(connection: psycopg.Connection[Any], name: str) -> None:
    shapes = [shape for shape in SHAPES if name == "geometry" or shape in SHAPES[:7]]
    words = [f"({shape}{more}{srid})" for shape in shapes for more in _SHAPES for srid in ("", ",4326", ",4269")]
    columns = ", ".join(f"c{number} {name}{word}" for number, word in enumerate(["", *words]))
    connection.execute(f"create table modified_{name} ({columns})".encode())
    function = """
        select probin || ':' || prosrc from pg_type t join pg_proc p on p.oid = t.typmodout where typname = %s
    """
    output = str((connection.execute(function, (name,)).fetchone() or ("",))[0]).removeprefix("$libdir/")
    info = TypeInfo(99999, name, "public", name, "b", -1, "d", False, typmod_output=output)
    query = "select atttypmod, format_type(atttypid, atttypmod) from pg_attribute where attrelid = %s::regclass"
    modified = connection.execute(f"{query} and attnum > 0", (f"modified_{name}",)).fetchall()
    assert [text for _, text in modified] == [type_name_of(info, typmod) for typmod, _ in modified]
    assert len({text for _, text in modified}) > len(shapes)
