"""What every room stands on: kernels and their cache, flat values, whole files, locks, places, names of options.

Knows neither PostgreSQL nor Spark.
"""

from __future__ import annotations
