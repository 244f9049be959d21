"""The ground of every room: kernels and their cache, flat values, whole files, locks, places, names of options.

Knows neither PostgreSQL nor Spark.
"""

from __future__ import annotations
