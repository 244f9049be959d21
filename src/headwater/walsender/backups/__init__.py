"""The base backup at hand, sent as the server sends one that it takes.

In: the directory of ``--catalog``, options of BASE_BACKUP. Out: archives, a manifest, where the backup starts and ends.
Must not know: sockets, sessions, how WAL is decoded.
"""
