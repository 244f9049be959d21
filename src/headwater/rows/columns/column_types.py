"""The typed columns of all types: what a column is in Arrow, and so in Parquet, Delta, Iceberg and Spark.

:func:`column_type` says it of a type and its modifier, for one :class:`Target`. Types that a target does not have are
text, as the server prints it. Whether a *value* does not fit its column (an infinity, a NaN in a decimal, an array of
two dimensions) shows when it is read: :mod:`headwater.rows.columns.columns`.

Domains are looked through, with their modifiers. Names and types of nested columns are Spark's (``element``), and those
of PostgreSQL's functions: a range has ``lower``, ``upper``, ``lower_inc``, ``upper_inc`` and ``isempty``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.catalog.relation import Column, TypeInfo
from headwater.rows import _text_codes as codes
from headwater.rows.text_tables import base_type, unprintable
from headwater.rows.type_forms import ARROW_FORMS, arrow_form, form_code, is_built_in

ERROR, NULL, STRING, BYTES = "error", "null", "string", "bytes"
ON_UNREPRESENTABLE = (ERROR, NULL, STRING, BYTES)
"""Ways to treat a value that a column cannot hold; ``string``: columns are text whose types have such values, and
text that is none in UTF-8 is as ``encode(…, 'escape')`` has it; ``bytes``: columns of text are bytes."""

AS_STRING, AS_VARIANT = "string", "variant"
JSONB = (AS_STRING, AS_VARIANT)
"""Types of columns of jsonb."""

MOST_DIGITS = 38
"""Of a decimal in Arrow, Parquet, Delta and Spark."""

MOST_LEVELS = 8
"""Types that lie inside one another; what lies deeper is text."""

_FIRST_DAY, _LAST_DAY = -730_119, 2_921_939
"""0001-01-01 and 9999-12-31 in days since 2000-01-01."""

ALL_DAYS = (1 << 31) - 1
"""Of a target that holds all dates."""

_TIME, _INTERVAL_TYPE, _NUMERIC, _MONEY, _UUID, _JSONB = 1083, 1186, 1700, 790, 2950, 3802
_MONEY_DIGITS = 19


@dataclass(frozen=True)
class Target:
    """The purpose of the columns.

    Attributes:
        name: as errors say it.
        has_time: it has a type for a time of day.
        has_uuid: likewise for a UUID.
        has_int16: likewise for an integer of 16 bits.
        has_variant: likewise for any JSON.
        widens: columns can get a type that holds more, and files keep the one that they have.
        first_day, last_day: the dates that it holds, in days since 2000-01-01.
    """

    name: str
    has_time: bool = False
    has_uuid: bool = False
    has_int16: bool = True
    has_variant: bool = False
    widens: bool = True
    first_day: int = _FIRST_DAY
    last_day: int = _LAST_DAY

    def held(self, arrow: pa.DataType) -> pa.DataType:
        """Return the type that values of one are kept in, to which they are cast."""
        if self.has_int16 or arrow == VARIANT:
            return arrow
        if pa.types.is_list(arrow):
            return list_of(self.held(arrow.value_type))
        if pa.types.is_struct(arrow):
            return pa.struct([(field.name, self.held(field.type)) for field in arrow])
        return pa.int32() if arrow == pa.int16() else arrow


VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
"""Spark's VARIANT, as its Python data sources give it (``pyspark.sql.pandas.types.is_variant``)."""

SPARK = Target("Spark")
SPARK_WITH_VARIANT = Target("Spark", has_variant=True)
DELTA = Target("Delta", widens=False)
"""As deltalake (1.6.6) has it, which neither reads rows of tables with ``typeWidening`` nor commits to them."""

SPARK_DELTA = Target("Delta")
ICEBERG = Target("Iceberg", has_time=True, has_uuid=True, has_int16=False)
SPARK_ICEBERG = Target("Iceberg", has_int16=False)
"""Iceberg as Spark knows it, which has neither times of day nor UUIDs."""

PARQUET = Target("Parquet", has_time=True, has_uuid=True, first_day=-ALL_DAYS, last_day=ALL_DAYS)

DUCKLAKE = replace(PARQUET, name="DuckLake")


class Form(enum.Enum):
    """The ways to read values."""

    WORDS = enum.auto()
    """Numbers of a fixed width, as they are stored."""
    BOOLEAN = enum.auto()
    UNSIGNED = enum.auto()
    DATE = enum.auto()
    TIME = enum.auto()
    TIMESTAMP = enum.auto()
    DECIMAL = enum.auto()
    MONEY = enum.auto()
    INTERVAL = enum.auto()
    UUID = enum.auto()
    BYTES = enum.auto()
    VERBATIM = enum.auto()
    """Text that is stored as it is."""
    PRINTED = enum.auto()
    """Text, as the server prints the value."""
    ADDED = enum.auto()
    """Read back from the text that another package prints."""
    LIST = enum.auto()
    STRUCT = enum.auto()
    RANGE = enum.auto()
    MULTIRANGE = enum.auto()
    VARIANT = enum.auto()
    VECTOR = enum.auto()


@dataclass(frozen=True)
class ColumnType:
    """A type of a column.

    Attributes:
        form: how values are read.
        arrow: the type of the values.
        type: PostgreSQL's type, domains looked through.
        scale: decimals of a DECIMAL or MONEY.
        parts: of a LIST the elements, of a RANGE or MULTIRANGE the bounds, of a STRUCT the attributes.
        target: its purpose.
    """

    form: Form
    arrow: pa.DataType
    type: TypeInfo
    target: Target
    scale: int = 0
    parts: tuple[ColumnType, ...] = ()

    @property
    def is_text(self) -> bool:
        """Values are what the server prints: text, or the bytes of it."""
        return self.form in (Form.VERBATIM, Form.PRINTED)

    @property
    def spark(self) -> str:
        """Spark's name of the type."""
        return spark_name(self.arrow)

    @property
    def name(self) -> str:
        """The type as errors say it."""
        return self.spark if self.target.name in (SPARK.name, DELTA.name) else f"{self.target.name}'s {self.arrow}"


_PLAIN = {
    **dict.fromkeys((pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()), Form.WORDS),
    pa.bool_(): Form.BOOLEAN,
    pa.binary(): Form.BYTES,
}
_OF_LIMITED_RANGE = {
    pa.date32(): Form.DATE,
    pa.timestamp("us"): Form.TIMESTAMP,
    pa.timestamp("us", tz="UTC"): Form.TIMESTAMP,
}
"""Forms of the server's own types whose Arrow form ``type_forms.py`` has."""

_INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
_UNSIGNED: Mapping[int, pa.DataType] = {
    codes.CODE_OID: pa.int64(),
    codes.CODE_UINT8: pa.decimal128(20, 0),
}


_ASCII = frozenset(
    {
        *range(codes.CODE_NUMERIC, codes.CODE_JSONB),
        *range(codes.CODE_FLOAT4, codes.CODE_NAME),
        *range(codes.CODE_TIME, codes.CODE_ARRAY),
        *(codes.CODE_INT4, codes.CODE_SNAPSHOT, codes.CODE_CUBE, codes.CODE_VECTOR, codes.CODE_HALFVEC),
        *(codes.CODE_SPARSEVEC, codes.CODE_POSTGIS, codes.CODE_QUERY_INT, codes.CODE_ISN, codes.CODE_EAN13),
        *(codes.CODE_SEG, codes.CODE_NDISTINCT, codes.CODE_DEPENDENCIES, codes.CODE_NONE),
    }
)
"""Types whose text has no other characters, whatever the database's encoding is."""


def list_of(element: pa.DataType) -> pa.ListType[Any]:
    """Make a list as Spark names its elements."""
    return pa.list_(pa.field("element", element))


_VECTOR = list_of(pa.float32())


def column_type(
    column: Column, target: Target, on_unrepresentable: str = ERROR, money_decimals: int | None = None
) -> ColumnType:
    """Find the type of a table's column.

    Args:
        column: the column; not dropped.
        target: its purpose.
        on_unrepresentable: one of :data:`ON_UNREPRESENTABLE`.
        money_decimals: digits after the point of an amount of money, by ``lc_monetary``; None for text.
    """
    assert column.type is not None
    types = _Types(target, on_unrepresentable == STRING, money_decimals, on_unrepresentable == BYTES)
    if unprintable(column.type) is not None:
        return types.text(base_type(column.type))  # as the session wants such values, all of them alike
    return types.of(column.type, column.typmod, 0)


def text_type(column: Column, target: Target) -> ColumnType:
    """Return the type of a column as text, whatever it holds; not dropped."""
    assert column.type is not None
    base = base_type(column.type)
    form = Form.VERBATIM if form_code(base) == codes.CODE_VERBATIM else Form.PRINTED
    return ColumnType(form, pa.string(), base, target)


@dataclass(frozen=True)
class _Types:
    """The settings of a call of :func:`column_type`.

    Attributes:
        target: the purpose.
        is_safe: no column may have a type that does not hold all values of PostgreSQL's.
        money_decimals: see there.
        has_bytes: columns of text are bytes.
    """

    target: Target
    is_safe: bool
    money_decimals: int | None
    has_bytes: bool = False

    def of(self, type: TypeInfo, typmod: int, depth: int) -> ColumnType:
        """Find the type of values that lie so deep in those of a column."""
        typmod, base = _modifier(type, typmod), base_type(type)
        result = self._scalar(base, typmod)
        if result is None and depth < MOST_LEVELS and not is_built_in(base):
            result = self._nested(base, typmod, depth)
        if result is None:
            return self.text(base)
        return result

    def _made(self, form: Form, arrow: pa.DataType, base: TypeInfo) -> ColumnType:
        return ColumnType(form, arrow, base, self.target)

    def text(self, base: TypeInfo) -> ColumnType:
        """Return text, or the type that a package makes of text."""
        code = form_code(base)
        if code == codes.CODE_ADDED:
            return self._made(Form.ADDED, arrow_form(base).type, base)
        arrow = pa.binary() if self.has_bytes and code not in _ASCII else pa.string()
        return self._made(Form.VERBATIM if code == codes.CODE_VERBATIM else Form.PRINTED, arrow, base)

    def _scalar(self, base: TypeInfo, typmod: int) -> ColumnType | None:
        """Find a type of the server's own that has no parts."""
        code, arrow = form_code(base), arrow_form(base).type if is_built_in(base) else pa.string()
        if arrow in _PLAIN:
            return self._made(_PLAIN[arrow], arrow, base)
        if code in _UNSIGNED:
            return self._made(Form.UNSIGNED, _UNSIGNED[code], base)
        if base.oid == _UUID and self.target.has_uuid:
            return self._made(Form.UUID, pa.uuid(), base)
        if base.oid == _MONEY and self.money_decimals is not None:
            arrow = pa.decimal128(_MONEY_DIGITS, self.money_decimals)
            return replace(self._made(Form.MONEY, arrow, base), scale=self.money_decimals)
        if code == codes.CODE_VECTOR:
            return self._made(Form.VECTOR, _VECTOR, base)
        return None if self.is_safe else self._limited(base, typmod, arrow)

    def _limited(self, base: TypeInfo, typmod: int, arrow: pa.DataType) -> ColumnType | None:
        """Find a type of the server's own that has values which the column does not hold."""
        if arrow in _OF_LIMITED_RANGE:
            return self._made(_OF_LIMITED_RANGE[arrow], arrow, base)
        if base.oid == _TIME and self.target.has_time:
            return self._made(Form.TIME, pa.time64("us"), base)
        if base.oid == _INTERVAL_TYPE:
            return self._made(Form.INTERVAL, _INTERVAL, base)
        if base.oid == _NUMERIC:
            return self._decimal(base, typmod)
        if base.oid == _JSONB and self.target.has_variant:
            return self._made(Form.VARIANT, VARIANT, base)
        return None

    def _decimal(self, base: TypeInfo, typmod: int) -> ColumnType | None:
        """Return the decimal for a numeric of a precision; None if no decimal holds its numbers."""
        if typmod < 4:
            return None
        # numeric_typmod_precision, numeric_typmod_scale (utils/adt/numeric.c).
        precision = (typmod - 4) >> 16 & 0xFFFF
        scale = ((typmod - 4 & 0x7FF) ^ 1024) - 1024
        digits, decimals = max(precision - min(scale, 0), scale), max(scale, 0)
        if digits > MOST_DIGITS:
            return None
        return replace(self._made(Form.DECIMAL, pa.decimal128(digits, decimals), base), scale=decimals)

    def _nested(self, base: TypeInfo, typmod: int, depth: int) -> ColumnType | None:
        if base.element is not None:
            return None if self.is_safe else self._list(base, typmod, depth)
        if base.typtype == "c":
            return self._struct(base, depth)
        if base.typtype in "rm" and base.subtype is not None:
            return self._range(base, depth)
        return None

    def _list(self, base: TypeInfo, typmod: int, depth: int) -> ColumnType:
        assert base.element is not None
        element = self.of(base.element, typmod, depth + 1)
        return replace(self._made(Form.LIST, list_of(element.arrow), base), parts=(element,))

    def _struct(self, base: TypeInfo, depth: int) -> ColumnType | None:
        shown = [attribute for attribute in base.attributes if attribute.type is not None]
        if not shown or len({attribute.name.lower() for attribute in shown}) < len(shown):
            return None  # no format has a struct without fields, or two of one name
        parts = tuple(
            self.of(attribute.type, attribute.typmod, depth + 1) for attribute in shown if attribute.type is not None
        )
        fields = [(attribute.name, part.arrow) for attribute, part in zip(shown, parts, strict=True)]
        return replace(self._made(Form.STRUCT, pa.struct(fields), base), parts=parts)

    def _range(self, base: TypeInfo, depth: int) -> ColumnType:
        assert base.subtype is not None
        bound = self.of(base.subtype, -1, depth + 1)
        names = ("lower_inc", "upper_inc", "isempty")
        range_type = pa.struct(
            [("lower", bound.arrow), ("upper", bound.arrow), *((name, pa.bool_()) for name in names)]
        )
        form, arrow = (Form.RANGE, range_type) if base.typtype == "r" else (Form.MULTIRANGE, list_of(range_type))
        return replace(self._made(form, arrow, base), parts=(bound,))


def _modifier(type: TypeInfo, typmod: int) -> int:
    """Find the modifier that a value has in the end: a column of a domain has none of its own."""
    while type.domain_of is not None and typmod < 0:
        typmod, type = type.domain_typmod, type.domain_of
    return typmod


def spark_name(arrow: pa.DataType) -> str:
    """Name a type of Arrow as Spark's DDL has it, e.g. ``ARRAY<DECIMAL(10,2)>``."""
    if pa.types.is_list(arrow):
        return f"ARRAY<{spark_name(arrow.value_type)}>"
    if arrow == VARIANT:
        return "VARIANT"
    if pa.types.is_struct(arrow):
        fields = (f"`{field.name.replace('`', '``')}`: {spark_name(field.type)}" for field in arrow)
        return f"STRUCT<{', '.join(fields)}>"
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    return ARROW_FORMS[arrow].spark
