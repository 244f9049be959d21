"""Databases of many encodings for clients of many encodings: the bytes that the server sends, or its errors."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.demo.stream_comparison import first_difference, joined
from headwater.errors import HeadwaterError
from headwater.pipeline import decode
from oracle.encoded_databases import DATABASES, STREAMS, EncodedDatabases, described, outcome
from oracle.streams import plugin_of

pytestmark = [pytest.mark.server, pytest.mark.spark]

DAILY = {
    "UTF8": ("UTF8", "SJIS"),
    "LATIN1": ("UTF8", "SJIS"),
    "EUC_JP": ("UTF8", "SJIS"),
    "SQL_ASCII": ("UTF8", "SQL_ASCII"),
}
"""Clients that are asked for every day, by database."""


def check(databases: EncodedDatabases, database: str, client: str, stream: str) -> tuple[int, int]:
    """Compare all groups; how many were sent, and how many refused."""
    sent = refused = 0
    for said in databases.expected[database, client, stream]:
        found = outcome(databases, databases.request(database, client, stream, said))
        place = described(said, database, client, stream)
        if said.error is not None:
            assert isinstance(found, HeadwaterError), (place, said.error)
            assert said.error.is_same(found), (place, said.error, found)
            refused += 1
            continue
        assert not isinstance(found, HeadwaterError), (place, found)
        assert first_difference(said.messages, found) is None, place
        assert len(said.messages) > 1
        sent += 1
    return sent, refused


@pytest.fixture(scope="module", params=[18])
def few(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EncodedDatabases:
    return EncodedDatabases(request.param, tmp_path_factory.mktemp("encodings"), list(DAILY), DAILY)


@pytest.fixture(scope="module", params=[14, 15, 16, 17, 18])
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EncodedDatabases:
    return EncodedDatabases(request.param, tmp_path_factory.mktemp("encodings"), list(DATABASES))


@pytest.mark.parametrize("stream", STREAMS)
def test_clients_get_what_the_server_sends(few: EncodedDatabases, stream: str) -> None:
    counts = [check(few, database, client, stream) for database, clients in DAILY.items() for client in clients]
    assert sum(sent for sent, _ in counts) > 20
    assert sum(refused for _, refused in counts) > 5


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("database", DATABASES)
def test_many_clients_get_what_the_server_sends(many: EncodedDatabases, database: str, stream: str) -> None:
    for client in DATABASES[database].all_clients:
        check(many, database, client, stream)


def test_tasks_convert(spark: Any, few: EncodedDatabases) -> None:
    said = few.expected["EUC_JP", "SJIS", "pgoutput"][0]
    with decode(spark, few.request("EUC_JP", "SJIS", "pgoutput", said)) as result:
        assert first_difference(said.messages, joined(result.tables())) is None
    assert plugin_of("pgoutput, binary") == "pgoutput"
