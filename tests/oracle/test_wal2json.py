"""wal2json: all scenarios and a random workload through the plugin of Debian's PostgreSQL 15 (``make wal2json``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

from headwater.jobs.engine import Engine
from oracle.cut_windows import check_slices, check_windows
from oracle.decoded_run import DecodedRun, kept_on_failure
from oracle.encoded_databases import DATABASES, JSON_STREAMS, EncodedDatabases, check
from oracle.known_gaps import KNOWN_GAPS
from oracle.oracle import run_random, run_scenarios
from oracle.scenario_wal2json import JSON_SCENARIOS
from oracle.scenarios import SCENARIOS
from oracle.streams import WAL2JSON, format_lsn

if TYPE_CHECKING:
    from headwater.local_servers.server_programs import ServerPrograms
    from oracle.oracle import OracleRun

MAJOR = 15
pytestmark = [pytest.mark.server, pytest.mark.spark]
SEED = 1


def scenario_names(everything: bool) -> list[str]:
    """List scenarios that share a server: those that are about wal2json, and with them those of test_decoding."""
    shared = [name for name, scenario in SCENARIOS.items() if not scenario.is_alone and scenario.since <= MAJOR]
    others = [name for name in shared if name not in KNOWN_GAPS and name not in JSON_SCENARIOS]
    return [*JSON_SCENARIOS, *(others if everything else [])]


@pytest.fixture(scope="module")
def json_run(
    request: pytest.FixtureRequest,
    engine: Engine,
    with_wal2json: ServerPrograms,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Any]:
    names = scenario_names(request.config.getoption("--all-majors"))
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(engine, run_scenarios(MAJOR, names, directory, with_wal2json, SCENARIOS | JSON_SCENARIOS))


@pytest.fixture(scope="module")
def random_json(
    request: pytest.FixtureRequest,
    engine: Engine,
    with_wal2json: ServerPrograms,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Any]:
    steps = 3000 if request.config.getoption("--all-majors") else 300
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield DecodedRun(engine, run_random(MAJOR, SEED, steps, directory, with_wal2json))


@pytest.mark.parametrize("name", WAL2JSON)
@pytest.mark.filterwarnings("ignore::headwater.errors.HeadwaterWarning")
def test_scenarios(json_run: DecodedRun, name: str) -> None:
    json_run.check(json_run.run.streams[name])


@pytest.mark.parametrize("name", ["wal2json, objects with all", "wal2json, pretty"])
@pytest.mark.filterwarnings("ignore::headwater.errors.HeadwaterWarning")
def test_random_workload(random_json: DecodedRun, name: str) -> None:
    random_json.check(random_json.run.streams[name])


@pytest.mark.parametrize("name", ["wal2json", "wal2json, chunks"])
@pytest.mark.filterwarnings("ignore::headwater.errors.HeadwaterWarning")
def test_windows_say_together_what_the_plugin_says(json_run: DecodedRun, name: str) -> None:
    """A message in no transaction may stand first in a window; the plugin counts on from the one before."""
    check_windows(json_run, json_run.run.streams[name], 25, 1)


@pytest.mark.parametrize("name", ["wal2json", "wal2json, chunks"])
@pytest.mark.filterwarnings("ignore::headwater.errors.HeadwaterWarning")
def test_small_slices_say_together_what_the_plugin_says(random_json: DecodedRun, name: str) -> None:
    """Only a transaction whose changes are messages each is cut."""
    check_slices(random_json, random_json.run.streams[name], 2000)


@pytest.mark.slow
def test_messages_in_spark(spark: Any, random_json: DecodedRun) -> None:
    stream = random_json.run.streams["wal2json, objects"]
    options = {"path": str(random_json.run.wal), "catalog": str(random_json.run.backup), "database": "postgres"}
    window = {"startingLsn": format_lsn(stream.start), "endingLsn": format_lsn(stream.end or 2**63)}
    plugin = {"plugin": "wal2json", **{f"plugin.{name}": value for name, value in stream.options}}
    rows = spark.read.format("headwater").options(**options, **window, **plugin).load().collect()
    expected = stream.messages.column("data").to_pylist()
    assert [row.data.encode() for row in rows] == expected


def test_calls_of_a_slot(random_json: DecodedRun, tmp_path: Path, command: Any) -> None:
    stream = random_json.run.streams["wal2json"]
    slot, out = tmp_path / "slot", tmp_path / "out"
    places = ["--wal", random_json.run.wal, "--catalog", random_json.run.backup, "--database", "postgres"]
    command("slot", "create", slot, *places, "--plugin", "wal2json", "-o", "include-xids=1")
    command("decode", "--slot", slot, "--out", out, "--end", format_lsn(stream.end or 2**63))
    xids = [json.loads(line)["xid"] for line in out.read_text().splitlines() if '"xid"' in line]
    # A message in no transaction has none in its text, though the server tells in which one it was written.
    rows = [row for row in stream.messages.to_pylist() if b'"transactional":false' not in row["data"]]
    assert xids == [row["xid"] for row in rows]


@pytest.fixture(scope="module")
def encoded(
    request: pytest.FixtureRequest, with_wal2json: ServerPrograms, tmp_path_factory: pytest.TempPathFactory
) -> EncodedDatabases:
    names = list(DATABASES) if request.config.getoption("--all-majors") else ["UTF8", "LATIN1", "EUC_JP"]
    clients = {name: dict.fromkeys(("UTF8", "SJIS", name)) for name in names}
    chosen = {name: tuple(encodings) for name, encodings in clients.items()}
    directory = tmp_path_factory.mktemp("encodings")
    return EncodedDatabases(MAJOR, directory, names, chosen, JSON_STREAMS, with_wal2json)


@pytest.mark.parametrize("stream", JSON_STREAMS)
@pytest.mark.filterwarnings("ignore::headwater.errors.HeadwaterWarning")
def test_clients_of_other_encodings(encoded: EncodedDatabases, stream: str) -> None:
    """JSON is made in the database's encoding, and converted."""
    asked = [(database, client) for database, client, name in encoded.expected if name == stream]
    counts = [check(encoded, database, client, stream) for database, client in asked]
    assert sum(sent for sent, _ in counts) > 10
    assert sum(refused for _, refused in counts) > 2


def test_scenarios_are_rich(json_run: DecodedRun) -> None:
    _check(json_run.run)


def _check(run: OracleRun) -> None:
    data = run.streams["wal2json, objects"].messages.column("data")
    for word in ('"action":"T"', '"action":"D"', '"transactional":false', '"identity"', '"value":null'):
        assert pc.any(pc.match_substring(data, word)).as_py(), word
