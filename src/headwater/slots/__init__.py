"""Durable progress from run to run, and what is carried over: not written yet."""

from __future__ import annotations
