"""The needs of Spark's Java process, checked before it starts because Spark itself would report them in forty lines.

Spark's own files are of PySpark's version; as many files may be open as its libraries need; workers of this machine run
this process's interpreter, as no other is known to have Headwater.
"""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path

from pyspark import __version__

from headwater.errors import SparkError
from headwater.spark.settings import given_settings, is_local

OPEN_FILES, FEWEST_OPEN_FILES = 4096, 400
"""How many files may be open if the hard limit allows it, and how many must. Spark opens its 300 libraries at once."""

_CORE = re.compile(r"spark-core_[^-]*-(.*)\.jar")


def prepare_spark(master: str) -> None:
    """Check what Spark finds when it starts, and set what it should find.

    Args:
        master: that the session will have.

    Raises:
        SparkError: Spark would not start, or not work.
    """
    _choose_python(master)
    _check_home()
    _allow_open_files()


def _choose_python(master: str) -> None:
    """Choose the interpreter; another machine's may lie elsewhere: there the user's word counts."""
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", given_settings().get("spark.pyspark.python", sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _check_home() -> None:
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return
    hint = "unset SPARK_HOME: PySpark brings a Spark of its own"
    if not (Path(home) / "bin" / "spark-submit").is_file():
        raise SparkError(f'SPARK_HOME is "{home}", where there is no bin/spark-submit', hint=hint)
    versions = {match[1] for jar in Path(home).glob("jars/spark-core_*") if (match := _CORE.fullmatch(jar.name))}
    if versions and __version__ not in versions:
        raise SparkError(f'SPARK_HOME is "{home}", Spark {", ".join(versions)}, expected {__version__}', hint=hint)


def _allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES:
        soft = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft != resource.RLIM_INFINITY and soft < FEWEST_OPEN_FILES:
        raise SparkError(
            f"could not start Spark: no more than {soft} files may be open, expected at least {FEWEST_OPEN_FILES}",
            hint=f"raise the limit, as with ulimit -n {OPEN_FILES}",
        )
