"""A real server of the same major that holds the source's catalogs, and no table's rows.

In: a base backup, WAL, the fold's state at an LSN. Out: connections to a hot standby that has replayed the catalogs up
to that LSN. It must not know of sessions of the service, nor of what they were asked.
"""

from __future__ import annotations
