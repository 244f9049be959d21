"""jsonb as VARIANT: Spark's own reader gives back what was stored, and no bytes lead outside."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from headwater.rows.columns._columns import FITS, TOO_MANY_DIGITS
from headwater.rows.columns._stored_columns import Spans
from headwater.rows.columns.variant import Variants, variants
from unit.rows.plain_text import jsonb

NUMBERS = st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal) | st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-(10**15), max_value=10**15, places=6
)
SCALARS = st.none() | st.booleans() | st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")) | NUMBERS
KEYS = st.text(alphabet="abé𝄞", max_size=5)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(alphabet="abé𝄞", max_size=5), inner, max_size=6)
    ),
    max_leaves=30,
)


def spans(stored: list[bytes]) -> Spans:
    lengths = np.array([len(payload) for payload in stored], np.int64)
    return Spans(np.frombuffer(b"".join(stored), np.uint8), np.cumsum(lengths) - lengths, lengths)


def read(encoded: Variants, at: int) -> Any:
    value = encoded.value[encoded.value_ends[at] : encoded.value_ends[at + 1]].tobytes()
    metadata = encoded.metadata[encoded.metadata_ends[at] : encoded.metadata_ends[at + 1]].tobytes()
    with localcontext(prec=60):  # PySpark scales a decimal in the context that it finds
        return VariantVal(value, metadata).toPython()


@given(st.lists(JSON, min_size=1, max_size=5))
def test_what_is_read_is_what_was_stored(values: list[Any]) -> None:
    encoded = variants(spans([jsonb(value) for value in values]))
    assert encoded.malformed is None
    assert [read(encoded, at) for at in range(len(values))] == values


@pytest.mark.parametrize("count", [255, 256, 257, 65_537])
def test_counts_ids_and_places_of_every_width(count: int) -> None:
    values = [{f"k{number}": Decimal(number) for number in range(count)}, [Decimal(number) for number in range(count)]]
    encoded = variants(spans([jsonb(value) for value in values]))
    assert [read(encoded, 0), read(encoded, 1)] == values


@pytest.mark.parametrize("number", ["1" + "0" * 38, "-" + "9" * 39, "1." + "0" * 39, "0." + "0" * 38 + "1"])
def test_a_number_of_too_many_digits_does_not_fit(number: str) -> None:
    encoded = variants(spans([jsonb([Decimal("1.5")]), jsonb({"a": [Decimal(number)]}), jsonb(Decimal(2))]))
    assert encoded.fits.tolist() == [FITS, TOO_MANY_DIGITS, FITS]
    assert np.diff(encoded.value_ends)[1] == np.diff(encoded.metadata_ends)[1] == 0
    assert (read(encoded, 0), read(encoded, 2)) == ([Decimal("1.5")], 2)


def test_bytes_that_no_server_writes() -> None:
    """Each ends with a value, or as malformed; run with NUMBA_BOUNDSCHECK it shows that nothing else is read."""
    rng, sample = random.Random(3), {"a": [Decimal(1), {"b": "x", "c": None}], "long": "y" * 90, "d": {"e": {}}}
    outcomes = set()
    for _ in range(3000):
        stored = bytearray(jsonb(sample))
        for _ in range(rng.randint(1, 4)):
            stored[rng.randrange(len(stored))] = rng.randrange(256)
        cut = rng.randint(1, len(stored)) if rng.random() < 0.2 else len(stored)
        outcomes.add(variants(spans([bytes(stored[:cut])])).malformed)
    assert outcomes == {None, 0}
