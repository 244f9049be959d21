"""The server's spelling of types (PostgreSQL: ``format_type_extended`` in format_type.c).

The spellings of types without a typmod are those of :class:`~headwater.catalog.relation.TypeInfo`. With the typmod of a
column, :func:`type_name_of` makes the name, as the types' functions for that would (``typmodout``: numeric.c,
varchar.c, varbit.c, date.c, timestamp.c; PostGIS: gserialized_typmod.c).

Known gap: typmods of types with such a function of another library.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.catalog.relation import TypeInfo
from headwater.errors import CatalogError

_BIT, _BPCHAR, _INTERVAL, _NUMERIC, _TIME, _TIMESTAMP = 1560, 1042, 1186, 1700, 1083, 1114
_TIMESTAMPTZ, _TIMETZ, _VARBIT, _VARCHAR = 1184, 1266, 1562, 1043

SPELLINGS = {
    _BIT: "bit",
    16: "boolean",
    _BPCHAR: "character",
    700: "real",
    701: "double precision",
    21: "smallint",
    23: "integer",
    20: "bigint",
    _NUMERIC: "numeric",
    _INTERVAL: "interval",
    _TIME: "time without time zone",
    _TIMETZ: "time with time zone",
    _TIMESTAMP: "timestamp without time zone",
    _TIMESTAMPTZ: "timestamp with time zone",
    _VARBIT: "bit varying",
    _VARCHAR: "character varying",
    114: "json",
}
"""Types with a spelling of their own, by OID."""

UNSPELLED = frozenset({_BIT, _BPCHAR})
"""Types that go by their own name in a column without a typmod: ``character`` would be one of length 1."""

_HEADER = 4
"""The size of a varlena's header (VARHDRSZ), which counts in the lengths in typmods."""

_ANY_FIELDS, _ANY_PRECISION = 0x7FFF, 0xFFFF
_FIELD_BITS = {"month": 1, "year": 2, "day": 3, "hour": 10, "minute": 11, "second": 12}
_SPANS = ("year", "month"), ("day", "hour", "minute", "second")

_SHAPES = (
    *("Geometry", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"),
    *("GeometryCollection", "CircularString", "CompoundCurve", "CurvePolygon", "MultiCurve", "MultiSurface"),
    *("PolyhedralSurface", "Triangle", "Tin"),
)


def type_name_of(info: TypeInfo, typmod: int) -> str:
    """Spell a column's type as ``format_type(atttypid, atttypmod)`` prints it.

    Args:
        info: the type.
        typmod: the column's typmod, -1 for none.

    Raises:
        CatalogError: another library prints typmods of this type.
    """
    if typmod < 0:
        return info.unspelled or info.display_name
    element = info.element
    if element is not None and info.display_name == f"{element.display_name}[]":
        return f"{type_name_of(element, typmod)}[]"
    if info.oid in _TYPMODS:
        # Only the words before the zone stand before the typmod.
        name = SPELLINGS[info.oid].partition(" with")[0]
        return name + _TYPMODS[info.oid](typmod)
    return info.display_name + _typmod_of_library(info, typmod)


def _typmod_of_library(info: TypeInfo, typmod: int) -> str:
    if not info.typmod_output:
        return f"({typmod})"
    if info.typmod_output.endswith(":postgis_typmod_out"):
        return _shape(typmod)
    raise CatalogError(
        f'modifiers of type "{info.name}" are printed by "{info.typmod_output}", which is not known',
        hint="leave the columns' types, or their modifiers, out of the output",
    )


def _length(typmod: int) -> str:
    return f"({typmod - _HEADER})" if typmod > _HEADER else ""


def _bits(typmod: int) -> str:
    return f"({typmod})"


def _numeric(typmod: int) -> str:
    if typmod < _HEADER:
        return ""
    length = typmod - _HEADER
    return f"({length >> 16 & 0xFFFF},{(length & 0x7FF ^ 0x400) - 0x400})"


def _time(typmod: int) -> str:
    return f"({typmod}) without time zone"


def _time_with_zone(typmod: int) -> str:
    return f"({typmod}) with time zone"


def _fields() -> dict[int, str]:
    """List the texts of INTERVAL's ranges by their bits, such as `` day to second``."""
    texts = {_ANY_FIELDS: ""}
    for span in _SPANS:
        for low, first in enumerate(span):
            bits = 0
            for last in span[low:]:
                bits |= 1 << _FIELD_BITS[last]
                texts[bits] = f" {first}" if last == first else f" {first} to {last}"
    return texts


_FIELDS = _fields()


def _interval(typmod: int) -> str:
    fields, precision = _FIELDS.get(typmod >> 16 & _ANY_FIELDS), typmod & _ANY_PRECISION
    if fields is None:
        raise CatalogError(f"invalid INTERVAL typmod: 0x{typmod:x}")
    return fields if precision == _ANY_PRECISION else f"{fields}({precision})"


def _shape(typmod: int) -> str:
    """Spell a typmod of PostGIS: the kind of shapes, their dimensions, and the reference system."""
    srid, shape = ((typmod & 0x0FFFFF00) - (typmod & 0x10000000)) >> 8, (typmod & 0xFC) >> 2
    dimensions = "Z" * (typmod >> 1 & 1) + "M" * (typmod & 1)
    if not (srid or shape or dimensions):
        return ""
    if shape >= len(_SHAPES):
        raise CatalogError(f"invalid typmod of a geometry: {typmod}")
    return f"({_SHAPES[shape]}{dimensions}{f',{srid}' if srid else ''})"


_TYPMODS: dict[int, Callable[[int], str]] = {
    _BIT: _bits,
    _VARBIT: _bits,
    _BPCHAR: _length,
    _VARCHAR: _length,
    _NUMERIC: _numeric,
    _INTERVAL: _interval,
    _TIME: _time,
    _TIMETZ: _time_with_zone,
    _TIMESTAMP: _time,
    _TIMESTAMPTZ: _time_with_zone,
}
"""The functions that print the typmods of the server's own types, by OID."""
