"""The common parts of demo, tests and benchmark: a workload, comparison of streams, counts of changes.

In: a running server. Out: its WAL, a verdict on two streams of messages. This room must not know Spark, and nothing in
it may be needed to decode.
"""

from __future__ import annotations
