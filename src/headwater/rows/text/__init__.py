"""Kernels that print values as text, as the output functions of their types do."""

from __future__ import annotations
