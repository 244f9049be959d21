"""Databases of many encodings for clients of many encodings: the bytes that the server sends, or its errors."""

from __future__ import annotations

from typing import Any

import pytest

from headwater import decode
from headwater.demo.stream_comparison import first_difference, joined
from headwater.errors import DecodingError, UsageError
from headwater.jobs.engine import Engine
from headwater.pg.version import VERSIONS
from headwater.source.options import SourceOptions
from headwater.source.source_plan import plan_source
from oracle.encoded_databases import DATABASES, STREAMS, EncodedDatabases, check, has_encoding
from oracle.streams import format_lsn

pytestmark = [pytest.mark.server]

DAILY = {
    "UTF8": ("UTF8", "SJIS"),
    "LATIN1": ("UTF8", "SJIS"),
    "EUC_JP": ("UTF8", "SJIS"),
    "SQL_ASCII": ("UTF8", "SQL_ASCII"),
}
"""Clients that are asked for every day, by database."""


@pytest.fixture(scope="module", params=[18])
def few(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EncodedDatabases:
    return EncodedDatabases(request.param, tmp_path_factory.mktemp("encodings"), list(DAILY), DAILY)


@pytest.fixture(scope="module", params=VERSIONS)
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
    clients = DATABASES[database].all_clients if has_encoding(many.major, database) else ()
    counts = [check(many, database, client, stream) for client in clients]
    assert sum(sent for sent, _ in counts) > 5 or not clients


def test_tasks_convert(engine: Engine, few: EncodedDatabases) -> None:
    answer = few.expected["EUC_JP", "SJIS", "pgoutput"][0]
    with decode(engine, few.request("EUC_JP", "SJIS", "pgoutput", answer.start, answer.end)) as result:
        assert first_difference(answer.messages, joined(result.tables())) is None


@pytest.mark.parametrize("database", ["LATIN1", "EUC_JP", "SQL_ASCII"])
def test_rows_are_unicode(few: EncodedDatabases, database: str) -> None:
    """Names, labels and values of a database in another encoding, as images and as columns of one table."""
    word = DATABASES[database].words[0]
    named, labels, texts = (rows_of(few, database, group, ddl="false") for group in range(3))
    assert {(word, word)} == {(row["_schema"], row["_table"]) for row in named}
    assert dict(named[0]["_after"]) == {"id": "1", word: word, "note": "plain"}
    assert [dict(row["_after"])["m"] for row in labels] == ["plain", word]
    assert dict(texts[1]["_after"])["list"] == f'{{{word},NULL,"a \\"{word}\\""}}'
    ddl = [row["_ddl"] for group in range(3) for row in rows_of(few, database, group) if row["_op"] == "ddl"]
    assert any(word in text for text in ddl)
    single = rows_of(few, database, 2, tables="public.texts2")
    assert [row["t"] for row in single[:3]] == ["plain", word, "plain"]
    assert single[2]["_before"]["t"] == word


def test_rows_need_text(few: EncodedDatabases) -> None:
    """Bytes that are no text in UTF8 are an error that names the column; rows are in no other encoding."""
    with pytest.raises(DecodingError, match=r'invalid byte sequence for encoding "UTF8": 0xff.* column "t" of table'):
        rows_of(few, "SQL_ASCII", 8)
    with pytest.raises(UsageError, match="rows are in UTF8, not in LATIN1"):
        rows_of(few, "LATIN1", 0, **{"set.client_encoding": "LATIN1"})


def rows_of(databases: EncodedDatabases, database: str, group: int, **options: str) -> list[dict[str, Any]]:
    """Read rows of changes of a group."""
    answer = databases.expected[database, "UTF8", "test_decoding"][group]
    places = {"path": str(databases.wal), "catalog": str(databases.backup), "database": database.lower()}
    window = {"startingLsn": format_lsn(answer.start), "endingLsn": format_lsn(answer.end)}
    plan = plan_source(SourceOptions.parse({**places, **window, **options}))
    batches = [plan.form.batch(plan.decoder.located(part)) for part in plan.slices]
    return [row for batch in batches for row in batch.to_pylist()]
