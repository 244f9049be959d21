"""Executors with another Headwater are refused."""

from __future__ import annotations

import pytest

from headwater.errors import SparkError
from headwater.spark.session import check_same_program, program_digest


def test_another_headwater_is_refused() -> None:
    check_same_program([program_digest(), program_digest()])
    with pytest.raises(SparkError, match=r"found 0\.0\.9 \(abc\), expected 0\.1\.0 \([0-9a-f]{12}\); install the same"):
        check_same_program([program_digest(), "0.0.9 (abc)"])
