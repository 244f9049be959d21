"""Change tables and current-state tables in Parquet, Delta and Iceberg: not written yet."""

from __future__ import annotations
