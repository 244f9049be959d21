"""The outputs of a run, and their results: messages in files, and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

from headwater.jobs.exchange import Arrived, Exchange
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.slices.message_files import MessageCounts, MessageForm, message_table
from headwater.reorder.commits.state import State

Deliver = Callable[[str], None]
"""Takes the path of a whole file."""

DeliverDatabase = Callable[[str], Deliver | None]
"""Gives what takes the files of a database, known by its label, in their order; None: they wait for the end."""


def nobody_takes(label: str) -> None:
    """Leave files where they are, until the end."""


@dataclass(frozen=True)
class Output:
    """One output of a run.

    Attributes:
        request: what to decode; those of a run are of one window, and differ in :attr:`DecodeRequest.output`.
        form: what the tasks write.
        deliver: takes files while later ones are made, each of which is removed then; an error that comes later takes
            nothing back that it did.
    """

    request: DecodeRequest
    form: MessageForm = MessageForm.ARROW
    deliver: DeliverDatabase = nobody_takes


class _Files:
    """Files of an exchange; a context manager, at whose end they are gone."""

    exchange: Exchange

    def close(self) -> None:
        """Remove the files."""
        self.exchange.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class DecodeResult(_Files):
    """The messages of one output of a database, in files; use it as a context manager, or call :meth:`close`.

    Attributes:
        files: the tasks' files, in output order; those that were delivered are gone.
        is_text: the messages are UTF-8 text.
        transactions, changes, messages: counts; changes are rows that gave a message; transactions those of which any
            was wanted, also if row filters left none.
        wal_bytes: bytes of WAL read; read_again: bytes of the stretches of it that were decoded for this output.
        passed_over: changes that nobody wanted, and that were not taken apart; filtered: those that row filters have
            left out, which were, but were not printed.
        consistent_at: LSN where decoding could begin.
        end_lsn: where the window ended.
        state: makes the state after it, for a session that goes on there.
        server_settings: settings of the server's configuration that values were printed under.
        seconds: wall-clock time of each step.
        exchange: what holds the files.
    """

    files: list[Arrived[MessageCounts]]
    is_text: bool
    transactions: int
    changes: int
    messages: int
    wal_bytes: int
    read_again: int
    passed_over: int
    filtered: int
    consistent_at: int
    end_lsn: int
    state: Callable[[], State]
    server_settings: tuple[tuple[str, str], ...]
    seconds: dict[str, float]
    exchange: Exchange

    @property
    def bytes(self) -> int:
        """Bytes of the messages' data."""
        return sum(file.summary.size for file in self.files)

    def tables(self) -> Iterator[pa.Table]:
        """Give tables of ``lsn int64, xid int64, data string|binary``, in order."""
        for file in self.files:
            yield message_table(file.path)


@dataclass
class Decoded(_Files):
    """The messages of a run; use it as a context manager, or call :meth:`close`.

    Attributes:
        databases: of each database, by its label, those of each output in their order. A label is the name as of when
            the database was met, with its OID after it if an earlier one had the same name; databases are in the order
            in which they were met.
        indexed: bytes of WAL that were indexed; read_again: of those that decode tasks read, none twice in a task.
        seconds: wall-clock time of each step.
        exchange: what holds the files.
    """

    databases: dict[str, list[DecodeResult]]
    indexed: int
    read_again: int
    seconds: dict[str, float]
    exchange: Exchange
