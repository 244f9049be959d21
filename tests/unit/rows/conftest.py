"""Hypothesis without a deadline: the first call of a kernel compiles it."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")
