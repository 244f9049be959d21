"""Several transactions of the source applied as one: rows folded by their keys, sent as arrays and by COPY."""

from __future__ import annotations
