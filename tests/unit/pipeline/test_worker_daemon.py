"""The process that Spark forks workers from."""

from __future__ import annotations

import os
import subprocess
import sys


def test_spark_that_has_ended_meanwhile_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "headwater.spark.worker_daemon", "pyspark.worker"]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")
