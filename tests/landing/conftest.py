"""What tests of landing under difficulties share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from landing.work import Work, do_work


@pytest.fixture(scope="session")
def work(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Work:
    return do_work(spark, tmp_path_factory.mktemp("work"))
