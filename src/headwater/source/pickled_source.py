"""The class that a session gets as the data source: pickled by value, as :mod:`headwater.source.pickled_by_value`."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource

from headwater.source.pickled_by_value import importing_headwater

SOURCE_NAME = "headwater"

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class PickledSource(DataSource):
    """A stand-in for the data source in a session; making an instance makes one of the data source itself."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return SOURCE_NAME

    def __new__(cls, options: MutableMapping[str, str]) -> Any:
        """Return the data source with these options."""
        with importing_headwater():
            from headwater.source.data_source import HeadwaterDataSource
        return HeadwaterDataSource(options)
