"""A decode on a standalone cluster of hosts that share nothing but the WAL, while one of two workers is killed.

The driver and the workers are different users. In one run they also share ``--scratch``, in the other all goes through
Spark. Slow tasks have speculative copies. The output is the server's own word, byte for byte.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.conftest import Cluster, Decoding

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]


def _check(cluster: Cluster, decoding: Decoding) -> list[dict[str, Any]]:
    """Check the output, the loss of an executor, and that no machine compiled a kernel; gives Spark's events."""
    decoding.check_done()
    assert (cluster.out / "lines").read_bytes() == cluster.window.expected
    assert sorted(path.name for path in cluster.out.iterdir()) == ["events", "lines"]
    events = [json.loads(line) for line in decoding.events().splitlines()]
    kinds = [event["Event"] for event in events]
    assert kinds.count("SparkListenerExecutorRemoved") == 1
    # The host of the killed worker gets no other one.
    assert kinds.count("SparkListenerExecutorAdded") == 2
    assert "headwater: compiling kernels" not in cluster.said_by_executors()
    cluster.check_left("one", "two")
    return events


def _lost_tasks(events: list[dict[str, Any]]) -> int:
    ends = [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
    return sum(event["Task End Reason"]["Reason"] == "ExecutorLostFailure" for event in ends)


def test_through_a_shared_directory(cluster_with_scratch: Cluster) -> None:
    cluster, scratch = cluster_with_scratch, cluster_with_scratch.scratch
    with cluster.decoding("--scratch", scratch) as decoding:
        decoding.until(lambda: cluster.hosts["one"].has_open(f"{scratch}/headwater-*/*/decode-*/*"))
        cluster.kill_worker("one")
        events = _check(cluster, decoding)
    assert _lost_tasks(events) > 0
    assert list(scratch.iterdir()) == []


def test_through_spark(cluster_without_scratch: Cluster) -> None:
    cluster, host = cluster_without_scratch, cluster_without_scratch.hosts["one"]

    def partitions() -> set[str]:
        """List the names of RDDs' partitions on the host's disk."""
        return {path.name for path in host.outside(Path("/tmp")).glob("spark-*/executor-*/blockmgr-*/*/rdd_*_*")}

    with cluster.decoding() as decoding:
        decoding.until(decoding.decodes)
        before = partitions()
        decoding.until(lambda: partitions() - before)
        cluster.kill_worker("one")
        _check(cluster, decoding)
