"""The transactions, and their changes, that are wanted of a window of WAL; and the place where reading it stops."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.plugins.table_patterns import EVERY_TABLE, TablePatterns
from headwater.wal.layout import LONG_HEADER, PAGE_SIZE, SHORT_HEADER

NO_COMMIT = (1, 0)
"""First and last commit of no transaction at all (:attr:`Scope.commits`)."""


@dataclass(frozen=True)
class Scope:
    """The transactions, and their changes, that are wanted.

    Attributes:
        segment_size: bytes of a segment of the log.
        start: transactions whose commit record starts before it are left out, 0 for none.
        tables: the tables whose changes are wanted, if the plugin wants them too.
        commits: first and last start of a commit record that a transaction is wanted for, None for any.
        may_lack: it is one database of all: it need not have had what the plugin's options name.
    """

    segment_size: int
    start: int = 0
    tables: TablePatterns = EVERY_TABLE
    commits: tuple[int, int] | None = None
    may_lack: bool = False

    def end_before(self, lsn: int) -> int:
        """Return the last ``upto_lsn`` with which the record that starts at ``lsn`` is not read."""
        header = LONG_HEADER if lsn % self.segment_size < PAGE_SIZE else SHORT_HEADER
        return lsn - header if lsn % PAGE_SIZE == header else lsn


def stop_lsn(end: int, segment_size: int) -> int:
    """Return the LSN where the server would stop reading at ``upto_lsn``: records that start before it are read.

    The server reads on as long as the last record it has read ended before ``upto_lsn``. A record that is the first on
    its page follows one that ended before the page's header.

    Args:
        end: ``upto_lsn``.
        segment_size: bytes of a segment of the log.
    """
    header = LONG_HEADER if end % segment_size < PAGE_SIZE else SHORT_HEADER
    page = end - end % PAGE_SIZE
    return page + header + 1 if 0 < end % PAGE_SIZE <= header else end
