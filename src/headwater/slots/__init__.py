"""Durable progress: slots and kept states, as files.

In: states of the fold (:mod:`headwater.reorder.commits.state`) and what a user asked for. Out: the same again, in
another process or after a crash. This room knows files and locks; it must not know Spark, nor how a state comes about.
"""

from __future__ import annotations
