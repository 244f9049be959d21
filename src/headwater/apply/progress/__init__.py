"""The place that the target has come to, as the target itself keeps it."""

from __future__ import annotations
