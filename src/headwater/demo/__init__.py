"""The common parts of demo, tests and benchmark: a real server, a workload, comparison of streams, counts of changes.

In: only installed programs and packages. Out: a running server and the files that it leaves, a verdict on two streams
of messages. This room must not know Spark, and nothing in it may be needed to decode.
"""

from __future__ import annotations
