"""The registration of the ``headwater`` data source with a session, whoever made the session and whenever.

Spark can find the data source by itself (:mod:`pyspark_headwater`). But it asks the Python that ``PYSPARK_PYTHON``
named when its Java process started, or else ``python3`` of ``PATH``, and asks once. Registered by a program, a data
source still runs in that Python: it travels with ``SparkContext.pythonExec``. Here it travels with the interpreter of
this process, in which Headwater evidently is.

Three things of the session are touched, and nothing else:

- the data source of the name ``headwater``;
- the layout of Spark's log on the console where it is Spark's default (:mod:`headwater.spark.failure_log`);
- on a cluster the application's files, which get the compiled kernels (:mod:`headwater.spark.kernel_travel`).

Known gap: a session of Spark Connect has no Java process here; there the server's Python must have Headwater.
"""

from __future__ import annotations

import os
import shutil
import sys

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.source.pickled_source import SOURCE_NAME, PickledSource
from headwater.spark.failure_log import shorten_failures
from headwater.spark.kernel_travel import send_kernels
from headwater.spark.settings import is_local

_ANY_PYTHON = "python3"


def register_source(spark: SparkSession) -> None:
    """Register the data source; does nothing where it is registered already.

    Args:
        spark: a session that runs.
    """
    context = spark.sparkContext
    shorten_failures(context)
    send_kernels(context)
    interpreter = _interpreter(context)
    registered = _registered_interpreter(spark)
    if registered is None or not _is_same_program(registered, interpreter):
        _register(spark, interpreter)


def _interpreter(context: SparkContext) -> str:
    """Return the Python that shall plan and read.

    Where tasks run on this machine that is ours. On a cluster it is the one that the user named for all workers; if
    none was named, again ours, which then must be at the same path on every node.
    """
    named: str = context.pythonExec
    here = is_local(str(context.master))
    return sys.executable if sys.executable and (here or named == _ANY_PYTHON) else named


def _registered_interpreter(spark: SparkSession) -> str | None:
    """Return the Python of the data source that the session has; None if it has none, or Java does not say."""
    try:
        manager = spark._jsparkSession.sessionState().dataSourceManager()
        if not manager.dataSourceExists(SOURCE_NAME):
            return None
        return str(manager.lookupDataSource(SOURCE_NAME).dataSourceCls().pythonExec())
    except (Py4JError, PySparkException):
        return None


def _is_same_program(left: str, right: str) -> bool:
    """Tell whether two names are of one Python.

    A link from another environment to the same program is another Python.
    """
    paths = [shutil.which(name) or name for name in (left, right)]
    folders = {os.path.realpath(os.path.dirname(path)) for path in paths}
    return len(folders) == 1 and len({os.path.realpath(path) for path in paths}) == 1


def _register(spark: SparkSession, interpreter: str) -> None:
    """Register the class; Spark packs the interpreter's name with it."""
    context = spark.sparkContext
    before = context.pythonExec
    context.pythonExec = interpreter
    try:
        spark.dataSource.register(PickledSource)
    finally:
        context.pythonExec = before
