"""Defaults of columns in debezium: what becomes of expressions, as the connector has shown it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.catalog.relation import Column, TypeInfo
from headwater.plugins.debezium import column_types as oids
from headwater.plugins.debezium.column_types import Forms
from headwater.plugins.debezium.defaults import default_value
from headwater.plugins.debezium.options import DebeziumOptions
from unit.plugins.plugin_slices import make_column

BASE = TypeInfo(23, "int4", "pg_catalog", "integer", "b", 4, "i", True)
MOOD = TypeInfo(16400, "mood", "public", "mood", "e", 4, "i", True, labels=((1, "ok"),))


def column(type: TypeInfo, default: str, typmod: int = -1) -> Column:
    return replace(make_column(1, "c", type), default=default, typmod=typmod)


@pytest.mark.parametrize(
    ("oid", "typmod", "expression", "expected"),
    [
        (oids.INT4, -1, "5", 5),
        (oids.INT2, -1, "'-2'::integer", -2),
        (oids.INT4, -1, "(1 + 2)", None),
        (oids.INT4, -1, "2147483648", None),
        (oids.INT4, -1, "nextval('s'::regclass)", 0),
        (oids.INT4, -1, "NULL::integer", None),
        (oids.INT4, -1, "", None),
        (oids.FLOAT8, -1, "3", 3.0),
        (oids.FLOAT8, -1, "'-Infinity'::double precision", "-Infinity"),
        (oids.NUMERIC, -1, "12.50", None),
        (oids.NUMERIC, (9 << 16) + 3 + 4, "2", "B9A="),
        (oids.NUMERIC, (9 << 16) + 2 + 4, "1.555", None),
        (oids.BOOL, -1, "true", True),
        (oids.BOOL, -1, "random() > 0.5", False),
        (oids.TEXT_OID, -1, "'it''s'::text", "it"),
        (oids.TEXT_OID, -1, "CURRENT_USER", "CURRENT_USER"),
        (oids.TEXT_OID, -1, "upper('a'::text)", ""),
        (oids.DATE, -1, "'2020-01-02'::date", 18263),
        (oids.DATE, -1, "CURRENT_DATE", 0),
        (oids.JSONB, -1, "'[1]'::jsonb", "[1]"),
        (oids.BYTEA, -1, "'\\xdead'::bytea", None),
        (oids.MONEY, -1, "1", None),
    ],
)
def test_expressions(oid: int, typmod: int, expression: str, expected: Any) -> None:
    with_default = column(replace(BASE, oid=oid, name="t"), expression, typmod)
    form = Forms(DebeziumOptions()).form(with_default)
    assert form is not None
    assert default_value(with_default, form) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'ok'::public.mood", "ok"),
        ("'ok'::mood", "ok"),
        ("('ok'::text)::public.mood", None),
        ("'ok'::public.other", None),
        ("'ok'", None),
    ],
)
def test_labels(expression: str, expected: str | None) -> None:
    with_default = column(MOOD, expression)
    form = Forms(DebeziumOptions()).form(with_default)
    assert form is not None
    assert default_value(with_default, form) == expected


def test_generated_columns_have_none() -> None:
    generated_column = replace(column(BASE, "5"), generated="s")
    form = Forms(DebeziumOptions()).form(generated_column)
    assert form is not None
    assert default_value(generated_column, form) is None
