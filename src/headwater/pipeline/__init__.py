"""Runs: windows of WAL planned on the driver, their slices decoded in tasks of an engine, and what comes of it.

In: requests and an engine. Out: messages in files, DDL, reports. Requests, windows and slices have rooms of their own,
which know no Spark.
"""

from __future__ import annotations
