"""Kernels that print values in binary, as the send functions of their types do."""

from __future__ import annotations
