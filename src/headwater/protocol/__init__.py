"""PostgreSQL's frontend/backend protocol, and that of replication in it: bytes to values and back.

Pure: no sockets, no clock but for the times of messages, nothing of what is served. Both sides' rooms, the receiver
and the walsender, speak it. This room must not know the WAL.
"""
