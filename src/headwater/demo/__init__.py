"""What the demo, the tests and the benchmark share: a real server, a workload, two streams compared, changes counted.

In: nothing but installed programs and packages. Out: a running server and the files it leaves, a verdict on two streams
of messages. This room must not know Spark, and nothing in it may be needed to decode.
"""

from __future__ import annotations
