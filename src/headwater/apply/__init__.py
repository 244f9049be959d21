"""A subscriber, pgoutput in and PostgreSQL tables out: not written yet."""

from __future__ import annotations
