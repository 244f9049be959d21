"""Patterns of tables: what they match, and what chooses a relation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError, UsageError
from headwater.plugins.table_patterns import EVERY_TABLE, TablePatterns
from unit.plugins.plugin_slices import Catalog

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


def test_what_is_excluded_counts_before_what_is_chosen() -> None:
    patterns = TablePatterns.parse(["shop.*"], ["shop.log*, shop.orders"])
    assert patterns == TablePatterns(("shop.*",), ("shop.log*", "shop.orders"))
    assert patterns.matches("shop.items")
    assert not patterns.matches("shop.orders")
    assert not patterns.matches("shop.logs")
    assert not patterns.matches("other.items")
    assert not patterns.chooses(ORDERS, NOTHING)
    assert patterns.excludes(ORDERS, NOTHING)
    all_but = TablePatterns((), ("shop.orders",))
    assert not all_but.are_all
    assert all_but.matches("any.thing")
    assert not all_but.chooses(ORDERS, NOTHING)
    assert EVERY_TABLE.are_all
    assert not EVERY_TABLE.excludes(ORDERS, NOTHING)


def test_partitions_of_an_excluded_table_are_excluded() -> None:
    root = replace(ORDERS, oid=1, name="root", kind="p")
    leaf = replace(ORDERS, oid=3, name="leaf", is_partition=True, ancestors=(1,))
    heap = replace(ORDERS, oid=4, name="pg_temp_3", rewrite_of=3)
    catalog = Catalog((root, leaf, heap))
    for excluded in ("shop.root", "shop.leaf"):
        patterns = TablePatterns(("shop.*",), (excluded,))
        assert not patterns.chooses(leaf, catalog)
        assert not patterns.chooses(heap, catalog)
    assert TablePatterns((), ("shop.leaf",)).chooses(root, catalog)


@pytest.mark.parametrize(
    "patterns",
    [
        EVERY_TABLE,
        TablePatterns(("a.b", "c.*")),
        TablePatterns((), ("a.b",)),
        TablePatterns(("a.b", "c.*"), ("c.x", "c.z")),
    ],
)
def test_patterns_as_text(patterns: TablePatterns) -> None:
    assert TablePatterns.of_text(patterns.as_text) == patterns


def test_texts_of_older_targets_are_read() -> None:
    assert TablePatterns.of_text("all") == EVERY_TABLE
    assert TablePatterns.of_text("a.b, c.*") == TablePatterns(("a.b", "c.*"))
    assert TablePatterns((), ("a.b",)).as_text == "all, without, a.b"
