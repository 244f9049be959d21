"""The subscriber's side of logical replication: pgoutput in, rows of PostgreSQL tables out.

In: pieces of a pgoutput stream, from a server's slot or from the log. Out: the same changes in tables of a target,
with how far they are. Must not know: the walsender's sessions, lakes.

``incoming/`` reads the stream; ``target/`` has the connection, the tables and the statements; ``progress/`` what the
target keeps of how far it is.
"""

from __future__ import annotations
