"""Patterns of tables: what they match, and what chooses a relation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plugin_slices import Catalog

from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError, UsageError
from headwater.plugins.table_patterns import EVERY_TABLE, TablePatterns

ORDERS = RelationSchema(16400, "shop", "orders", "r", "p", "d", (), ())
NOTHING = Catalog()


@pytest.mark.parametrize(
    ("pattern", "namespace", "name", "is_match"),
    [
        ("shop.orders", "shop", "orders", True),
        ("shop.orders", "shop", "Orders", False),
        ("shop.Orders", "shop", "Orders", True),
        ("orders", "shop", "orders", False),
        ("*", "shop", "orders", True),
        ("*.orders", "shop", "orders", True),
        ("shop.*", "shop", "", True),
        ("shop.*", "shopping", "orders", False),
        ("shop.order?", "shop", "orders", True),
        ("shop.orders?", "shop", "orders", False),
        ("s?op.a.b", "shop", "a.b", True),
        ("shop.[ab]", "shop", "a", False),
        ("shop.[ab]", "shop", "[ab]", True),
        ("shop.a+", "shop", "aa", False),
        ("shop.a?b", "shop", "a,b", True),
        ("shop.a*b", "shop", "a\nb", True),
    ],
)
def test_patterns(pattern: str, namespace: str, name: str, is_match: bool) -> None:
    schema = replace(ORDERS, namespace=namespace, name=name)
    assert is_match == TablePatterns((pattern,)).chooses(schema, NOTHING)
    assert EVERY_TABLE.chooses(schema, NOTHING)


def test_lists() -> None:
    assert TablePatterns.parse(["a.b, c.*", " d.e"]).patterns == ("a.b", "c.*", "d.e")
    assert TablePatterns.parse([]) == EVERY_TABLE
    for text in ("", " ", ","):
        with pytest.raises(UsageError, match="no pattern of tables"):
            TablePatterns.parse(["a.b", text])


def test_texts_of_patterns() -> None:
    patterns = TablePatterns.parse(["c.*, a.b", "a.b"])
    assert patterns.as_text == "a.b, c.*"
    assert TablePatterns.of_text(patterns.as_text).as_text == patterns.as_text
    assert TablePatterns.of_text(EVERY_TABLE.as_text) == EVERY_TABLE
    assert patterns.matches("c.d")
    assert not patterns.matches("a.c")
    assert EVERY_TABLE.matches("a.c")


def test_partitions_follow_their_ancestors_and_new_heaps_their_tables() -> None:
    root = replace(ORDERS, oid=1, name="root", kind="p")
    middle = replace(ORDERS, oid=2, name="middle", kind="p", is_partition=True, ancestors=(1,))
    leaf = replace(ORDERS, oid=3, name="leaf", is_partition=True, ancestors=(2, 1))
    heap = replace(ORDERS, oid=4, name="pg_temp_3", rewrite_of=3)
    catalog = Catalog((root, middle, leaf, heap))
    for pattern in ("shop.root", "shop.middle", "shop.leaf"):
        assert TablePatterns((pattern,)).chooses(leaf, catalog)
        assert TablePatterns((pattern,)).chooses(heap, catalog)
    assert not TablePatterns(("shop.leaf",)).chooses(middle, catalog)
    assert not TablePatterns(("shop.pg_temp*",)).chooses(heap, catalog)
    assert not TablePatterns(("shop.*",)).chooses(heap, NOTHING)


def test_a_pattern_that_matches_nothing_is_named() -> None:
    patterns = TablePatterns.parse(["shop.orders, shop.it*"])
    patterns.require_matches(["shop.orders", "shop.items", "x.y"])
    with pytest.raises(CatalogError, match=r'no table matches "shop\.it\*"'):
        patterns.require_matches(["shop.orders"])
    with pytest.raises(CatalogError, match=r"there is a\.orders, shop\.orders"):
        TablePatterns(("orders",)).require_matches(["shop.orders", "a.orders", "a.b"])
