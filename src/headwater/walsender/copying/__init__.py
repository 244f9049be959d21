"""The rows of a subscriber's initial copy: COPY of a table as of the LSN of a slot's snapshot, without a server.

In: a COPY statement read into a value, a state of the catalog, a base backup and the WAL after it. Out: the payloads of
CopyData that the server sends, some rows at a time. Must not know: sockets, sessions, which engine runs tasks.
"""

from __future__ import annotations
