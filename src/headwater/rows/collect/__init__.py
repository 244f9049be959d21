"""Changes of a slice collected from records: where their tuples lie, and whole rows joined."""

from __future__ import annotations
