"""A query of the data source as a process of its own, which tests kill: ``stream_driver.py OPTIONS DIRECTORY ENDING``.

Messages go into Parquet files in ``DIRECTORY/out``, the checkpoint lies beside them. ENDING says when the process ends:
``finished`` and ``killed`` when it has taken what is there, of itself or by its own hand, ``never`` when it is killed.
The first time that it meets a message with ``deadly`` in it, it kills itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import headwater
from headwater.spark.session import spark_session


def _killer(spark: Any) -> Callable[[], None]:
    driver, java = os.getpid(), spark._jvm.java.lang.ProcessHandle.current().pid()

    def kill() -> None:
        os.kill(java, signal.SIGKILL)
        os.kill(driver, signal.SIGKILL)

    return kill


def _run(options: dict[str, str], directory: Path, ending: str) -> None:
    spark = spark_session("local[1]")
    spark.sparkContext.setLogLevel("ERROR")
    headwater.register(spark)
    kill = _killer(spark)

    def deadly(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if any(b"deadly" in data for data in batch.column("data").to_pylist()):
                try:
                    (directory / "killed").touch(exist_ok=False)
                    kill()
                except FileExistsError:
                    pass
            yield batch

    stream = spark.readStream.format("headwater").options(**options).load()
    writer = stream.mapInArrow(deadly, stream.schema).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    writer = writer.trigger(processingTime="0 seconds") if ending == "never" else writer.trigger(availableNow=True)
    writer.start(str(directory / "out")).awaitTermination()
    if ending == "killed":
        kill()
    spark.stop()


_run(json.loads(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
