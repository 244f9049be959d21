"""The client's knowledge: when relations are announced to it, and what invalidates that.

Mirrors the relation sync cache of pgoutput (pgoutput.c).
"""

from __future__ import annotations
