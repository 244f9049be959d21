"""Row filters by hand: rows as they are stored, trees as servers write them."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence

import numpy as np
import pytest

from headwater.catalog.relation import Column, TypeInfo
from headwater.errors import CatalogError, ExpressionError, UnchangedValueError, UnsupportedFilterError
from headwater.filters.columns import NULL, UNCHANGED, VALUE, RawColumn
from headwater.filters.filter import Filter, compile_filter
from headwater.filters.functions import FilterSettings

INT4 = TypeInfo(23, "int4", "pg_catalog", "integer", "b", 4, "i", True)
TEXT = TypeInfo(25, "text", "pg_catalog", "text", "b", -1, "i", False)
MOOD = TypeInfo(16999, "mood", "public", "mood", "e", 4, "i", True)
COLUMNS = (
    Column(1, "number", INT4, -1, 4, "i", False),
    Column(2, "gone", None, -1, 4, "i", True),
    Column(3, "words", TEXT, -1, -1, "i", False),
    Column(4, "mood", MOOD, -1, 4, "i", False),
)
C = FilterSettings(18, collate="C", ctype="C")

NUMBER = "{VAR :varno 1 :varattno 1 :vartype 23 :varlevelsup 0}"
WORDS = "{VAR :varno 1 :varattno 3 :vartype 25 :varlevelsup 0}"


def integer(value: int | None) -> str:
    if value is None:
        return "{CONST :consttype 23 :constlen 4 :constisnull true :constvalue <>}"
    data = " ".join(map(str, struct.pack("<q", value)))
    return f"{{CONST :consttype 23 :constlen 4 :constisnull false :constvalue 4 [ {data} ]}}"


def text(value: str) -> str:
    raw = struct.pack("<I", (len(value.encode()) + 4) << 2) + value.encode()
    data = " ".join(map(str, raw))
    return f"{{CONST :consttype 25 :constlen -1 :constisnull false :constvalue {len(raw)} [ {data} ]}}"


def operator(opno: int, left: str, right: str, result: int = 16, collation: int = 0) -> str:
    fields = f":opno {opno} :opfuncid 0 :opresulttype {result} :opretset false :inputcollid {collation}"
    return f"{{OPEXPR {fields} :args ({left} {right})}}"


def both(kind: str, *arguments: str) -> str:
    return f"{{BOOLEXPR :boolop {kind} :args ({' '.join(arguments)})}}"


EQUAL, LESS, DIVIDE, MULTIPLY, TEXT_EQUAL, TEXT_LESS = 96, 97, 528, 514, 98, 664


def numbers(*values: int | None, unchanged: Sequence[int] = ()) -> RawColumn:
    kind = np.array([NULL if value is None else VALUE for value in values], dtype=np.uint8)
    kind[list(unchanged)] = UNCHANGED
    data = np.frombuffer(bytearray(b"".join(struct.pack("<i", value or 0) for value in values)), np.uint8)
    count = len(values)
    return RawColumn(kind, np.arange(count, dtype=np.int64) * 4, np.full(count, 4, np.int32), data)


def words(*values: str) -> RawColumn:
    lengths = np.array([len(value.encode()) for value in values], dtype=np.int32)
    data = np.frombuffer(bytearray("".join(values).encode()), np.uint8)
    kind = np.full(len(values), VALUE, np.uint8)
    return RawColumn(kind, np.cumsum(lengths, dtype=np.int64) - lengths, lengths, data)


def compiled(*trees: str, settings: FilterSettings = C) -> Filter:
    loaded: Filter = pickle.loads(pickle.dumps(compile_filter(trees, COLUMNS, settings)))
    return loaded


@pytest.mark.interpreted
def test_null_is_not_true() -> None:
    rows = {1: numbers(1, 2, None)}
    equal = operator(EQUAL, NUMBER, integer(1))
    assert compiled(equal).verdict(rows, 3).tolist() == [True, False, False]
    assert compiled(both("not", equal)).verdict(rows, 3).tolist() == [False, True, False]
    assert compiled(equal).columns == {1}


def test_several_filters_are_one_of_them() -> None:
    compiled_filter = compiled(operator(EQUAL, NUMBER, integer(1)), operator(EQUAL, NUMBER, integer(3)))
    assert compiled_filter.verdict({1: numbers(1, 2, 3)}, 3).tolist() == [True, False, True]


def test_no_rows() -> None:
    compiled_filter = compiled(both("and", operator(EQUAL, NUMBER, integer(1)), operator(TEXT_EQUAL, WORDS, text("a"))))
    assert compiled_filter.verdict({1: numbers(), 3: words()}, 0).tolist() == []


def test_what_is_decided_raises_nothing() -> None:
    """``number <> 0 and 6 / number = 3``, and the other way round."""
    divides = operator(EQUAL, operator(DIVIDE, integer(6), NUMBER, 23), integer(3))
    is_zero = operator(EQUAL, NUMBER, integer(0))
    guarded = compiled(both("and", both("not", is_zero), divides))
    assert guarded.verdict({1: numbers(0, 2, None, 3)}, 4).tolist() == [False, True, False, False]
    assert compiled(both("or", is_zero, divides)).verdict({1: numbers(0, 2, 3)}, 3).tolist() == [True, True, False]
    with pytest.raises(ExpressionError, match="division by zero"):
        compiled(both("and", divides, both("not", is_zero))).verdict({1: numbers(2, 0)}, 2)


def test_the_first_row_s_error_is_raised() -> None:
    """``number * 1000 = 6 / number``: a row overflows, another one divides by zero."""
    product = operator(MULTIPLY, NUMBER, integer(1000), 23)
    compiled_filter = compiled(operator(EQUAL, product, operator(DIVIDE, integer(6), NUMBER, 23)))
    with pytest.raises(ExpressionError, match="integer out of range"):
        compiled_filter.verdict({1: numbers(1, 2, 2**31 - 1, 5, 0)}, 5)
    with pytest.raises(ExpressionError, match="division by zero"):
        compiled_filter.verdict({1: numbers(1, 0, 2, 2**31 - 1)}, 4)
    first = compiled_filter.first_error({1: numbers(1, 2, 5, 0, 2**31 - 1, 0)}, 6)
    assert first is not None
    assert (first[0], first[1].message) == (3, "division by zero")
    assert compiled_filter.first_error({1: numbers(1, 2)}, 2) is None


def test_constants_are_computed_before_the_first_row() -> None:
    """``number = 1 and 1/0 = 1`` fails for every row, ``1/number = 1 and false`` for none."""
    fails = operator(EQUAL, operator(DIVIDE, integer(1), integer(0), 23), integer(1))
    never = operator(EQUAL, integer(1), integer(2))
    compiled_filter = compiled(both("and", operator(EQUAL, NUMBER, integer(1)), fails))
    assert compiled_filter.verdict({1: numbers()}, 0).tolist() == []
    with pytest.raises(ExpressionError, match="division by zero"):
        compiled_filter.verdict({1: numbers(2)}, 1)
    divides = operator(EQUAL, operator(DIVIDE, integer(1), NUMBER, 23), integer(1))
    assert compiled(both("and", divides, never)).verdict({1: numbers(0, 1)}, 2).tolist() == [False, False]


def test_a_value_that_is_not_there_is_an_error_where_it_is_needed() -> None:
    rows = {1: numbers(1, 2, 3, unchanged=[1]), 3: words("a", "b", "c")}
    with pytest.raises(UnchangedValueError, match="column 1"):
        compiled(operator(EQUAL, NUMBER, integer(1))).verdict(rows, 3)
    later = both("and", operator(TEXT_EQUAL, WORDS, text("a"), collation=100), operator(EQUAL, NUMBER, integer(1)))
    assert compiled(later).verdict(rows, 3).tolist() == [True, False, False]


@pytest.mark.interpreted
def test_text_is_ordered_by_bytes_or_not_at_all() -> None:
    rows = {3: words("a", "B", "b")}
    less = operator(TEXT_LESS, WORDS, text("a"), collation=100)
    assert compiled(less).verdict(rows, 3).tolist() == [False, True, False]
    norwegian = FilterSettings(18, collate="nb_NO.UTF-8", ctype="nb_NO.UTF-8")
    with pytest.raises(UnsupportedFilterError, match=r"text_lt\(text, text\) \(OID 740\).*nb_NO.UTF-8"):
        compiled(less, settings=norwegian)
    c_itself = operator(TEXT_LESS, WORDS, text("a"), collation=950)
    assert compiled(c_itself, settings=norwegian).verdict(rows, 3).tolist() == [False, True, False]
    equal = operator(TEXT_EQUAL, WORDS, text("B"), collation=100)
    assert compiled(equal, settings=norwegian).verdict(rows, 3).tolist() == [False, True, False]


@pytest.mark.interpreted
def test_letters_of_ascii_are_known_in_most_locales() -> None:
    """``words ILIKE 'A%'``."""
    tree = operator(1627, WORDS, text("A%"), collation=100)
    norwegian = FilterSettings(18, collate="nb_NO.UTF-8", ctype="nb_NO.UTF-8")
    compiled_filter = compiled(tree, settings=norwegian)
    assert compiled_filter.verdict({3: words("ab", "Ab", "b")}, 3).tolist() == [True, True, False]
    with pytest.raises(UnsupportedFilterError, match="more than those of ASCII"):
        compiled_filter.verdict({3: words("ab", "å")}, 2)
    assert compiled(tree).verdict({3: words("ab", "å")}, 2).tolist() == [True, False]
    for locale in ("tr_TR.UTF-8", ""):
        with pytest.raises(UnsupportedFilterError, match="letters of the database's collation"):
            compiled(tree, settings=FilterSettings(18, ctype=locale))


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ("{SUBLINK :x 1}", "a node SUBLINK"),
        (operator(1, NUMBER, NUMBER), "operator with OID 1 "),
        ("{FUNCEXPR :funcid 99999 :funcretset false :funcvariadic false :funcresulttype 16 :args ()}", "OID 99999"),
        (
            "{FUNCEXPR :funcid 1598 :funcretset false :funcvariadic false :funcresulttype 16 :args () :inputcollid 0}",
            "OID 1598",
        ),
        ("{VAR :varattno 0 :vartype 16999 :varlevelsup 0}", "a whole row"),
        ("{VAR :varattno 4 :vartype 16999 :varlevelsup 0}", "OID 16999"),
        (
            "{FUNCEXPR :funcid 2895 :funcretset false :funcvariadic false :funcresulttype 142 :inputcollid 100 "
            f":args ({WORDS})}}",
            "xmlcomment(text) (OID 2895)",
        ),
    ],
)
def test_what_is_not_known_is_named(tree: str, words: str) -> None:
    with pytest.raises(UnsupportedFilterError) as error:
        compiled(tree)
    assert words in error.value.message


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ("{VAR :varattno 2 :vartype 23 :varlevelsup 0}", "column 2, which the relation does not have"),
        ("{VAR :varattno 9 :vartype 23 :varlevelsup 0}", "column 9, which the relation does not have"),
        ("{VAR :varattno 1 :vartype 25 :varlevelsup 0}", 'column "number" of type integer, expected text'),
        ("(i 1)", "is no node"),
        ("{OPEXPR :opno 96}", "has no field"),
    ],
)
def test_a_tree_that_does_not_fit_is_an_error(tree: str, words: str) -> None:
    with pytest.raises(CatalogError) as error:
        compiled(tree)
    assert words in error.value.message
