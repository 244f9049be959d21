"""Spark lands what this process lands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.lakes.landing_target import LandingTarget
from headwater.landing.landing_modes import MODES
from headwater.pipeline.engines import engine_of
from landing.work import Work

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format", ["parquet", "ducklake"])
def test_spark_lands_the_same(spark: Any, work: Work, tmp_path: Path, format: str, mode: str) -> None:
    target = LandingTarget(tmp_path / "lake", format, mode=mode)
    work.land(engine_of(spark), target)
    work.check_whole(target)
