"""The work of a task: the changes of replays, resolved and cut into slices of even size."""

from __future__ import annotations
