"""Headwater: PostgreSQL's logical decoding outside the server, as a Spark pipeline.

The rooms below this package stand in the order of the data flow; each imports only rooms before it
(``docs/architecture.md`` has the list, ``tests/unit/test_rooms.py`` enforces it).
"""

from __future__ import annotations

__version__ = "0.1.0"
