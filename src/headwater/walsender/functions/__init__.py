"""The functions and views that the service itself has, as SQL knows them: of slots, of sessions, of the log.

In: what they are about, through protocols. Out: functions and views that queries can name.
Must not know: sockets, how slots are kept, how WAL is decoded.
"""

from __future__ import annotations
