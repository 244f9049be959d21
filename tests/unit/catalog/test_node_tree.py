"""Node trees as servers have written them, and malformed ones."""

from __future__ import annotations

import pytest

from headwater.catalog.node_tree import Datum, Node, Numbers, Quoted, Words, parse_node_tree
from headwater.errors import CatalogError

OPERATOR = (
    "{OPEXPR :opno 521 :opfuncid 147 :opresulttype 16 :opretset false :opcollid 0 :inputcollid 0 :args ("
    "{VAR :varno 1 :varattno 2 :vartype 23 :vartypmod -1 :varcollid 0 :varnullingrels (b) :varlevelsup 0 "
    ":varreturningtype 0 :varnosyn 1 :varattnosyn 2 :location 47} "
    "{CONST :consttype 23 :consttypmod -1 :constcollid 0 :constlen 4 :constbyval true :constisnull false "
    ":location 51 :constvalue 4 [ 1 0 0 0 0 0 0 -1 ]}) :location 49}"
)


def parsed(text: str) -> Node:
    node = parse_node_tree(text)
    assert isinstance(node, Node)
    return node


def test_an_operator() -> None:
    node = parsed(OPERATOR)
    column, constant = node.nodes("args")
    assert (node.name, node.integer("opno"), node.boolean("opretset")) == ("OPEXPR", 521, False)
    assert (column.integer("varattno"), column.integer("vartypmod")) == (2, -1)
    assert column["varnullingrels"] == Numbers("b", ())
    assert constant["constvalue"] == Datum(4, b"\1\0\0\0\0\0\0\xff")


def test_values_of_every_kind() -> None:
    node = parsed(
        r'{X :none <> :word a\ b\(c\) :less \<> :list (1 "a\ b" <> {Y}) :oids (o 1 2) :numbers (i -3) :several 1 2 3 '
        r":name :x :empty () :ids (x 7)}"
    )
    assert (node["none"], node.word("none"), node["word"], node["less"]) == (None, "", "a b(c)", "<>")
    assert node["list"] == ("1", Quoted("a b"), None, Node("Y", ()))
    assert (node.numbers("oids"), node.numbers("numbers"), node["ids"]) == ((1, 2), (-3,), Numbers("x", (7,)))
    assert (node["several"], node["name"], node["empty"]) == (Words(("1", "2", "3")), ":x", ())
    assert (node.has("name"), node.has("names"), node.maybe_node("none")) == (True, False, None)


def test_a_list_of_nodes() -> None:
    assert parse_node_tree("({A :x 1} {B})") == (Node("A", (("x", "1"),)), Node("B", ()))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ends in the middle"),
        ("{A", "ends in the middle"),
        ("{A :x", "ends in the middle"),
        ("{A :x 1", "ends in the middle"),
        ("{A x}", "expected a field"),
        ("{A :x )}", 'unexpected ")"'),
        ("(o 1 x)", "expected a number"),
        ("{A :x 4 [ 1 x ]}", "expected a number"),
        ("{A} {B}", "behind its end"),
        ("{A :x {B} {C}}", "several values"),
        ("(" * 1000, "inside one another"),
        ("{A :x " * 1000, "inside one another"),
    ],
)
def test_malformed_text_is_refused(text: str, words: str) -> None:
    with pytest.raises(CatalogError, match="malformed node tree") as error:
        parse_node_tree(text)
    assert words in error.value.message


@pytest.mark.parametrize("read", ["integer", "boolean", "node", "nodes", "numbers", "word"])
def test_a_field_that_holds_another_thing_is_refused(read: str) -> None:
    value = "(o 1)" if read in ("word", "node", "nodes") else "abc"
    with pytest.raises(CatalogError, match="field x of node A"):
        getattr(parsed(f"{{A :x {value}}}"), read)("x")


def test_a_field_that_is_missing_is_refused() -> None:
    with pytest.raises(CatalogError, match="node A has no field y"):
        parsed("{A :x 1}").word("y")
