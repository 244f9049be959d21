"""SQL on a replication connection: the queries that stock clients send, answered from the catalog as of an LSN.

In: the text of a query, a view of the catalog. Out: a result's columns and rows, or None for SQL of any other shape.
Must not know: sockets, sessions, rows of tables.
"""

from __future__ import annotations
