"""A plugin of callbacks as users write them: a line of JSON for each change."""

from __future__ import annotations

import json

from headwater import Change, Context, OutputPlugin, Relation, Transaction
from headwater.base.overrides import override


class JsonLines(OutputPlugin):
    """Says what was done to which table, and the row's values."""

    def begin(self, ctx: Context, txn: Transaction) -> None:
        ctx.write(json.dumps({"begin": txn.xid}))

    def commit(self, ctx: Context, txn: Transaction, commit_lsn: int) -> None:
        ctx.write(json.dumps({"commit": txn.xid, "lsn": commit_lsn}))

    @override
    def change(self, ctx: Context, txn: Transaction, relation: Relation, change: Change) -> None:
        row = change.old if change.action == "delete" else change.new
        values = {name: str(value) for name, value in (row or {}).items()}
        ctx.write(json.dumps({"table": relation.name, "action": change.action, "row": values}))
