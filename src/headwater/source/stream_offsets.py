"""The place of a stream: what Spark keeps of it in a checkpoint, as JSON.

A stream is one session, and what a plugin has announced depends on where the session began; so an offset says that as
well. State and output after an offset are a function of it, the request and the WAL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import UsageError
from headwater.pg.lsn import Lsn
from headwater.reorder.commits.state import State


@dataclass(frozen=True)
class StreamOffset:
    """A place in the log, always the end of a record, or where a catalog was taken.

    Attributes:
        lsn: transactions whose commit record starts before it have been delivered.
        timeline: the timeline that the log was on there.
        since: where the session began: transactions whose commit record starts before it are not output.
        table: OID of the single table that rows are of, 0 for none.
    """

    lsn: int
    timeline: int
    since: int
    table: int = 0

    @classmethod
    def of_json(cls, offset: Mapping[str, Any]) -> StreamOffset:
        """Read what Spark kept.

        Raises:
            UsageError: it is no offset of a stream of changes.
        """
        try:
            lsn, since = Lsn.parse(offset["lsn"]), Lsn.parse(offset["since"])
            return cls(lsn, int(offset["timeline"]), since, int(offset.get("table", 0)))
        except (KeyError, TypeError, ValueError, AttributeError, UsageError):
            hint = "name another checkpointLocation: this one is of another kind of query"
            raise UsageError(
                f"the checkpoint holds no offset of a stream of changes: {dict(offset)}", hint=hint
            ) from None

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark keeps it; the same text for the same offset."""
        fields = {"lsn": str(Lsn(self.lsn)), "timeline": self.timeline, "since": str(Lsn(self.since))}
        return {**fields, "table": self.table} if self.table else fields

    def behind(self, state: State) -> StreamOffset:
        """Return the offset of the stream with a state of the same session."""
        return StreamOffset(state.lsn, state.timeline, self.since, self.table)
