"""The class that Spark's Python processes unpickle first: they may be of a Python that has no Headwater.

Pickled by name, a class of ours says no more there than "No module named 'headwater'", under a traceback of Spark's.
This module is pickled by value instead, and imports the rest itself; so the error says which Python it was, and what to
do. A Python of another minor version is found by Spark before that, with an error of its own that says as much.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class PickledByValue:
    """An object that imports Headwater when it is unpickled, and only then its class and attributes."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return _load, (cloudpickle.dumps((type(self), self.__dict__)),)


def _load(pickled: bytes) -> Any:
    with importing_headwater():
        cls, attributes = pickle.loads(pickled)
    loaded = object.__new__(cls)
    loaded.__dict__.update(attributes)
    return loaded


@contextmanager
def importing_headwater() -> Iterator[None]:
    """Import what is needed of Headwater inside the ``with`` block, or say which Python cannot."""
    try:
        import headwater.spark.worker_daemon

        headwater.spark.worker_daemon.end_quietly()
        yield
    except ImportError as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise ImportError(
            f"headwater cannot be imported by {sys.executable}, the Python of Spark's workers ({error}); "
            "install it there, or name a Python that has it with PYSPARK_PYTHON or spark.pyspark.python"
        ) from None
