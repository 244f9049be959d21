"""Numbers of any length."""

from __future__ import annotations

import pytest

from headwater.pg.decimals import decimal


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("007", 7), ("+12", 12), ("-5", -5), ("0" * 5000 + "3", 3), ("9" * 40, 10**40 - 1)]
)
def test_numbers(text: str, number: int) -> None:
    assert decimal(text) == number


@pytest.mark.parametrize("sign", ["", "-", "+"])
def test_one_that_python_would_not_convert_is_large(sign: str) -> None:
    assert abs(decimal(sign + "1" * 5001)) > 10**38


@pytest.mark.parametrize("text", ["", "-", "x", "1x", " 1", "1 ", "٣", "1_000"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[^ ]{0,5} ?[^ ]{0,5}$"):
        decimal(text)
