"""PostgreSQL servers that this process runs: for the service's catalogs, the demo, the tests and the benchmark.

In: only installed programs and packages. Out: a running server, and the files that it leaves. This room must not know
Spark, and nothing in it may be needed to decode.
"""

from __future__ import annotations
