"""A decode on a standalone cluster of hosts that share nothing but the WAL, while one executor is killed.

The driver and the workers are different users. In one run they also share ``--scratch``, in the other all goes through
Spark. Slow tasks have speculative copies. The output is the server's own word, byte for byte.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from cluster.conftest import Cluster, Decoding

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]


def _kill_executor(cluster: Cluster, name: str) -> None:
    (number,) = cluster.executors(name)
    os.kill(number, signal.SIGKILL)


def _check(cluster: Cluster, decoding: Decoding) -> list[dict[str, Any]]:
    """The output is right, an executor was lost, and no machine has compiled a kernel; gives Spark's events."""
    decoding.check_done()
    assert (cluster.out / "lines").read_bytes() == cluster.window.expected
    assert sorted(path.name for path in cluster.out.iterdir()) == ["events", "lines"]
    events = [json.loads(line) for line in decoding.events().splitlines()]
    kinds = [event["Event"] for event in events]
    assert kinds.count("SparkListenerExecutorRemoved") == 1
    assert kinds.count("SparkListenerExecutorAdded") >= 2
    assert "headwater: compiling kernels" not in cluster.said_by_executors()
    return events


def _lost_tasks(events: list[dict[str, Any]]) -> int:
    ends = [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
    return sum(event["Task End Reason"]["Reason"] == "ExecutorLostFailure" for event in ends)


def test_through_a_shared_directory(spark_cluster: Cluster) -> None:
    scratch = spark_cluster.scratch

    def is_written() -> bool:
        return any(scratch.glob("headwater-*/*/decode-*/*"))

    with spark_cluster.decoding("--scratch", scratch) as decoding:
        decoding.until(is_written)
        _kill_executor(spark_cluster, "one")
        events = _check(spark_cluster, decoding)
    assert _lost_tasks(events) > 0
    assert list(scratch.iterdir()) == []


def test_through_spark(spark_cluster: Cluster) -> None:
    one = spark_cluster.hosts["one"]

    def partitions() -> set[str]:
        """Of RDDs, on the host's disk."""
        return {path.name for path in one.outside(Path("/tmp")).glob("spark-*/executor-*/blockmgr-*/*/rdd_*_*")}

    with spark_cluster.decoding() as decoding:
        decoding.until(decoding.decodes)
        before = partitions()
        decoding.until(lambda: partitions() - before)
        _kill_executor(spark_cluster, "one")
        _check(spark_cluster, decoding)
    assert list(spark_cluster.scratch.iterdir()) == []
