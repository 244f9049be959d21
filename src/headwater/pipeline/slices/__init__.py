"""A slice decoded, in a task: into messages of a plugin, in files, or into rows."""

from __future__ import annotations
