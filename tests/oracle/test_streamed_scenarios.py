"""Scenarios while they run: what walsenders stream of transactions in progress, and what Headwater says of the WAL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.jobs.engine import Engine
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from oracle.conformance import COMPARED
from oracle.decoded_run import kept_on_failure
from oracle.oracle import PUBLICATIONS
from oracle.scenario_marks import mark
from oracle.scenarios import IN_PROGRESS, SCENARIOS
from oracle.script import ScriptRun
from oracle.streamed_runs import Run, Streams, decoded, difference, run_live, sent_messages
from oracle.streams import STREAMED_STREAMS, is_said_by, plugin_of

pytestmark = [pytest.mark.server]

MAJORS = (14, 15, 16, 17, 18, 19)
NAMES = [name for name, scenario in SCENARIOS.items() if scenario.theme == IN_PROGRESS]


class StreamedScenarios:
    """The messages that walsenders sent of all scenarios, and what we make of it, a stream at a time."""

    def __init__(self, engine: Engine, run: Run, version: str) -> None:
        self.run, self.version = run, version
        self.decoded: Callable[[str], pa.Table] = cache(lambda name: decoded(engine, run, name))


def run_scenarios(major: int, directory: Path) -> tuple[Run, str]:
    """Run all scenarios one after another on one server; return its version, too."""
    versions: list[str] = []

    def work(server: EmbeddedPostgres, catch_up: Callable[[], object]) -> None:
        with server.connect() as connection:
            versions.append(connection.info.parameter_status("server_version") or "")
            for name in NAMES:
                mark(connection, name)
                connection.execute(f"CREATE SCHEMA {name}".encode())
                script = ScriptRun(server, name, before_rollback=catch_up)
                try:
                    script.run(SCENARIOS[name].script)
                finally:
                    script.close()
                # What the next one defines would make pgoutput announce once more what this one has.
                catch_up()

    streams: Streams = {n: (plugin_of(n), options) for n, options in STREAMED_STREAMS.items() if is_said_by(n, major)}
    run = run_live(major, directory, PUBLICATIONS[:1], streams, work)
    return run, versions[0]


@pytest.fixture(scope="module", params=MAJORS, ids=[f"pg{major}" for major in MAJORS])
def streamed(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StreamedScenarios]:
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield StreamedScenarios(engine, *run_scenarios(request.param, directory))


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMED_STREAMS)
@pytest.mark.parametrize("script", NAMES)
def test_streamed_scenario(
    streamed: StreamedScenarios, script: str, name: str, record_property: Callable[[str, object], None]
) -> None:
    run = streamed.run
    if name not in run.plugins:
        pytest.skip(f"PostgreSQL {run.major} has no such option")
    actual = streamed.decoded(name)
    record_property(COMPARED, [run.major, streamed.version, script, name, len(sent_messages(run, name, script))])
    mismatch = difference(run, name, actual, script)
    if mismatch is not None:
        pytest.fail(f"{name} on {run.major}\n{mismatch}\n{run.wal}", pytrace=False)


@pytest.mark.slow
def test_all_is_streamed(streamed: StreamedScenarios) -> None:
    """Each scenario has blocks, and the stream as a whole each kind of message."""
    sent = [data for _, data in streamed.run.sent["pgoutput, streamed"]]
    assert {data[:1] for data in sent} >= {b"S", b"E", b"A", b"c"}
