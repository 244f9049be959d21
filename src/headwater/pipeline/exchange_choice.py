"""Which way values go between driver and tasks.

Tasks of a local master are this user's, on this machine: files in a directory of its own. On a cluster the user may
name a directory that driver and executors share (``--scratch``); without one, values go through Spark.
"""

from __future__ import annotations

from pyspark import SparkContext

from headwater.errors import HeadwaterError
from headwater.pipeline.exchange import Exchange
from headwater.pipeline.file_exchange import FileExchange
from headwater.pipeline.spark_exchange import SparkExchange
from headwater.pipeline.spark_settings import is_local


def open_exchange(context: SparkContext, scratch: str | None = None, place: str | None = None) -> Exchange:
    """Open one.

    Args:
        context: the Spark context.
        scratch: an existing directory that driver and tasks share, if the user has named one.
        place: where the driver's own files go otherwise; None for where temporary files go.

    Raises:
        HeadwaterError: there cannot be files in the directory.
    """
    try:
        if is_local(str(context.master)):
            return FileExchange(context, scratch or place, is_shared=False)
        if scratch is not None:
            return FileExchange(context, scratch, is_shared=True)
        return SparkExchange(context, place)
    except OSError as error:
        raise HeadwaterError(f"could not make a directory: {error.strerror or error}", file=error.filename) from None
