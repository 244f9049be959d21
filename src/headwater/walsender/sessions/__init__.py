"""The things that a session has: settings, a transaction, named statements and portals; the extended query protocol.

In: messages, statements that are prepared. Out: bytes for the client. Must not know: sockets, slots, who answers.
"""

from __future__ import annotations
