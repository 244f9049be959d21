"""The engine that is Spark: sessions, the Java process, workers, and the ways of values to tasks and back.

Knows nothing of PostgreSQL.
"""

from __future__ import annotations
