"""Headwater: PostgreSQL's logical decoding outside the server, as a Spark pipeline.

:func:`register` makes a Spark session know the data source ``headwater``. The rooms below this package stand in the
order of the data flow; each imports only rooms before it (``docs/architecture.md`` has the list,
``tests/unit/test_rooms.py`` enforces it). Importing the package alone imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["__version__", "register"]
__version__ = "0.1.0"


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("headwater")`` work in a session, whichever Python Spark would ask by itself.

    Once for each session, at any time; more often does no harm. Planning and tasks run the interpreter of this process;
    on a cluster the one that ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` names, if one is named.

    Args:
        spark: the session.
    """
    from headwater.pipeline.registration import register_source

    register_source(spark)
