"""The data source ``headwater`` of Spark: batch and stream."""

from __future__ import annotations
