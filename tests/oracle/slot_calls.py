"""Calls of ``headwater decode --slot``, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.demo.stream_comparison import joined, messages_table
from headwater.pg.lsn import Lsn
from oracle.decoded_run import DecodedRun
from oracle.killing import Killer, Moment, has
from oracle.streams import Stream
from slots.conftest import Command, done


class SlotCalls:
    """Calls of a slot to the same end, killed and not; each that comes to its end has output of its own.

    Attributes:
        killer: kills them.
        kills: how many it has killed before their end.
    """

    def __init__(self, command: Command, slot: Path, stream: Stream, killer: Killer, name: str = "") -> None:
        self.killer, self.kills = killer, 0
        self._command, self._slot, self._stream, self._name = command, slot, stream, name
        self._is_text = stream.plugin == "test_decoding"
        self._outs: list[Path] = []

    def words(self, *bounds: str | Path | Lsn) -> tuple[str | Path, ...]:
        """Write the words of another call."""
        suffix = "lines" if self._is_text else "parquet"
        self._outs.append(self.killer.directory / f"{self._name}{len(self._outs)}.{suffix}")
        form = ("--with-lsn",) if self._is_text else ()
        return ("decode", "--slot", self._slot, "-q", *form, *map(str, bounds), "--out", self._outs[-1])

    def while_writing(self, number: int = 0) -> Moment:
        """Make the moment when the call of a number, the first has 0, has begun with its output."""
        return has(1, f".headwater-*/{self._name}{number}.*")

    def killed(self, moment: Moment, *bounds: str | Path | Lsn) -> None:
        """Run a call that is killed, unless it ends before."""
        self.kills += self.killer.kills(moment, *self.words(*bounds))

    def finished(self, *bounds: str | Path | Lsn) -> None:
        """Run a call that comes to its end."""
        done(self._command, *self.words(*bounds))

    def more(self, *bounds: str | Path | Lsn) -> int:
        """Run one more call; return how many messages it gives."""
        self.finished(*bounds)
        return len(self._said(self._outs[-1:]))

    def compare(self, decoded: DecodedRun, expected: pa.Table) -> None:
        """Compare all calls together with the server."""
        expected = _lines(expected) if self._is_text else expected
        decoded.compare(self._stream, expected, self._said(self._outs))

    def _said(self, outs: Sequence[Path]) -> pa.Table:
        made = [out for out in outs if out.exists()]
        if self._is_text:
            return _table_of(b"".join(out.read_bytes() for out in made))
        return joined(pq.read_table(out) for out in made)


def _lines(messages: pa.Table) -> pa.Table:
    """Print messages as the command does with --with-lsn."""
    rows = zip(*(messages.column(name).to_pylist() for name in ("lsn", "xid", "data")), strict=True)
    return _table_of(b"".join(f"{Lsn(lsn)}\t{xid}\t".encode() + data + b"\n" for lsn, xid, data in rows))


def _table_of(printed: bytes) -> pa.Table:
    """Make a message of each line."""
    return messages_table((0, 0, line) for line in printed.splitlines(keepends=True))
