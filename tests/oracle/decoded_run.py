"""A server's run beside what Headwater makes of its files; how the two are compared, and what is said of a difference.

Directories of runs in which a test failed are copied to ``build/oracle``: the base backup, ``pg_wal`` and, of a run
that its seed does not give again, ``statements.log``; what a test fails with is written there at once. A failure says
how to decode them by hand.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from failure_texts import texts_are_kept
from headwater import DecodeRequest, decode
from headwater.demo.stream_comparison import first_difference, joined
from headwater.errors import HeadwaterError
from headwater.jobs.engine import Engine
from headwater.pg.lsn import Lsn
from oracle.oracle import OracleRun
from oracle.streams import Stream
from server_versions import saying

KEPT = Path(__file__).parents[2] / "build" / "oracle"

CALLBACKS = f"{Path(__file__).with_name('callback_test_decoding.py')}:TestDecoding"
"""A plugin of callbacks that does what test_decoding does."""


@contextmanager
def kept_on_failure(request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a directory that is kept in ``build/oracle`` if a test has failed since, with what it failed with."""
    directory, failed_before = factory.mktemp("oracle"), request.session.testsfailed
    try:
        with texts_are_kept(request, kept_place(directory)):
            yield directory
    except BaseException:
        _keep(directory)
        raise
    if request.session.testsfailed != failed_before:
        _keep(directory)
    shutil.rmtree(directory, ignore_errors=True)


def kept_place(directory: Path) -> Path:
    """Return where a directory is kept after a failure; no other run's."""
    return KEPT / f"{directory.parent.name}-{directory.name}"


def _keep(directory: Path) -> None:
    shutil.copytree(directory, kept_place(directory), symlinks=True, dirs_exist_ok=True)


class DecodedRun:
    """A server's run, and our decoding of its streams, each made when it is first asked for."""

    def __init__(self, engine: Engine, run: OracleRun) -> None:
        self.engine = engine
        self.run = run
        self._decoded: dict[str, pa.Table | HeadwaterError] = {}

    def decoded(self, stream: Stream) -> pa.Table:
        """Decode our messages of a stream that the server has shown; decoding fails the test if it fails."""
        messages = self._made(stream)
        if isinstance(messages, HeadwaterError):
            pytest.fail(f"{messages}\n{self.by_hand(stream)}", pytrace=False)
        return messages

    def check(self, stream: Stream) -> None:
        """Fail unless we say what the server says: the same messages, or the same error."""
        if stream.error is None:
            self.compare(stream, stream.messages, self.decoded(stream))
        else:
            self.check_stop(stream, self._made(stream))

    def check_stop(self, stream: Stream, actual: HeadwaterError | pa.Table) -> None:
        """Fail unless we stop with the error with which the server stops."""
        if stream.error is None or not isinstance(actual, HeadwaterError) or not stream.error.is_same(actual):
            shown = actual if isinstance(actual, HeadwaterError) else f"{len(actual)} messages"
            text = f"{stream.name} on {self.run.major}: the server stopped with {stream.error}; found {shown}"
            pytest.fail(f"{text}\n{self.by_hand(stream)}", pytrace=False)

    def compare(self, stream: Stream, expected: pa.Table, actual: pa.Table) -> None:
        """Fail with the first difference, if there is one."""
        difference = first_difference(expected, actual)
        if difference is not None:
            text = f"{stream.name} on {self.run.major}: {len(expected)} messages expected, {len(actual)} found"
            pytest.fail(f"{text}\n{difference}\n{self.by_hand(stream)}", pytrace=False)

    def request(self, stream: Stream) -> DecodeRequest:
        """Make the request of a stream."""
        return DecodeRequest(
            wal=str(self.run.wal),
            catalog=str(self.run.backup),
            database=self.run.database,
            plugin=stream.plugin,
            options=stream.options,
            start=stream.start,
            end=stream.end,
            settings=(*stream.settings, *saying(self.run.server_version)),
            two_phase=stream.two_phase,
        )

    def by_callbacks(self, stream: Stream) -> pa.Table:
        """Decode our messages of a stream of test_decoding, without options, written by a plugin of callbacks."""
        with decode(self.engine, replace(self.request(stream), plugin=CALLBACKS)) as result:
            return joined(result.tables())

    def by_hand(self, stream: Stream) -> str:
        """Write the command that decodes the stream from what is kept."""
        place = kept_place(self.run.wal.parent)
        words = ["headwater decode", f"--wal {place / 'pg_wal'}", f"--catalog {place / 'backup'}"]
        words += [f"--plugin {stream.plugin}", f"--database {self.run.database}", f"--start {Lsn(stream.start)}"]
        words += [f"--end {Lsn(stream.end)}"] if stream.end is not None else []
        words += [f"--server-version '{self.run.server_version}'"]
        words += ["--two-phase"] if stream.two_phase else []
        words += [f"-o '{name}={value}'" for name, value in stream.options]
        words += [f"--set '{name}={value}'" for name, value in stream.settings]
        words += ["--with-lsn" if stream.plugin == "test_decoding" else "--out x.parquet"]
        return " ".join(words) + (f"\nstatements: {place / self.run.log.name}" if self.run.log else "")

    def where_kept(self) -> str:
        """Tell where the run's files are after a failure, and what its frames were asked for."""
        tables = self.run.tables
        window = f", frames from {Lsn(tables.lo)} to {Lsn(tables.hi)}" if tables else ""
        return f"files: {kept_place(self.run.wal.parent)}{window}"

    def _made(self, stream: Stream) -> pa.Table | HeadwaterError:
        if stream.name not in self._decoded:
            try:
                with decode(self.engine, self.request(stream)) as result:
                    self._decoded[stream.name] = joined(result.tables())
            except HeadwaterError as error:
                self._decoded[stream.name] = error
        return self._decoded[stream.name]
