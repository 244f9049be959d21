"""The index of a stretch of WAL: what each transaction touched, and where; records that are kept whole.

In: frames. Out: :class:`~headwater.rmgr.index.wal_index.WalIndex`, small compared with its WAL.
"""

from __future__ import annotations
