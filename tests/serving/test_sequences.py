"""Subscribers of 19 get the values of sequences from the service: as of the end of the WAL, or those of the primary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bad_input.servers import conninfo_of, now, run, small_server, value
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.walsender.access.users import User, Users, write_users
from oracle.subscriber_queries import sequence_query
from serving.answers import ALL_FIELDS, Answer, answer_in, connected, places
from serving.service import Serving, all_are_let_in, backup_of, content, wait_until
from serving.subscribing import subscribe

pytestmark = [pytest.mark.server, pytest.mark.slow]

SEQUENCES = (
    "CREATE SEQUENCE a",
    'CREATE SCHEMA "S\'s"',
    'CREATE SEQUENCE "S\'s"."b\\c" AS smallint INCREMENT -3 MINVALUE -900 MAXVALUE 40 START 40 CYCLE',
    "CREATE TABLE t (id serial PRIMARY KEY, other bigint GENERATED ALWAYS AS IDENTITY)",
    "CREATE SEQUENCE far START 9000000000000 INCREMENT 1000000",
    "CREATE SEQUENCE unused MINVALUE -5",
)
NAMES = (
    ("public", "a"),
    ("S's", "b\\c"),
    ("public", "t_id_seq"),
    ("public", "t_other_seq"),
    ("public", "unused"),
    ("public", "far"),
    ("public", "late"),
    ("public", "t"),
    ("public", "gone"),
    ("none", "a"),
    ("public", "x" * 80),
)
WORK = (
    "SELECT setval('a', 70)",
    "SELECT setval('\"S''s\".\"b\\c\"', -7, false)",
    "SELECT setval('t_id_seq', 5); SELECT nextval('t_other_seq'), setval('t_other_seq', 8)",
    "CREATE SEQUENCE late; SELECT setval('late', 3)",
    "ALTER SEQUENCE far RESTART",
    "ALTER SEQUENCE unused INCREMENT 2",
    "CREATE SEQUENCE gone; DROP SEQUENCE gone",
)
VALUES = "SELECT string_agg(last_value || ' ' || is_called, ', ') FROM ({}) x".format(
    " UNION ALL ".join(
        f"(SELECT last_value, is_called FROM {name})" for name in ("a", '"S\'s"."b\\c"', "t_id_seq", "late", "unused")
    )
)
READY = "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel"


def both(
    server: EmbeddedPostgres, serving: Serving, query: str, user: str = "postgres", database: str = "postgres"
) -> list[Answer]:
    """Return what both say, with rows in their order."""
    answers = []
    for place in places(server, serving, user=user, dbname=database):
        with connected(**place) as connection:
            answers.append(answer_in(connection.exec_(query.encode()), connection, are_plain=False, fields=ALL_FIELDS))
    return answers


def sorted_rows(answer: Answer) -> Sequence[tuple[bytes | None, ...]]:
    return sorted(answer.rows, key=lambda row: row[0] or b"")


def check_answers(server: EmbeddedPostgres, serving: Serving) -> None:
    """Check that both say the same, column by column, and row by row."""
    now(server)
    theirs, ours = both(server, serving, sequence_query(NAMES))
    assert (ours.columns, ours.tag, ours.error) == (theirs.columns, theirs.tag, theirs.error)
    assert sorted_rows(ours) == sorted_rows(theirs)
    assert len(ours.rows) >= 5


def test_the_answer_is_the_servers(tmp_path: Path) -> None:
    with small_server(19) as server:
        run(server, *SEQUENCES)
        catalog = backup_of(server, tmp_path / "base")
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            check_answers(server, serving)
            run(server, *WORK, "VACUUM FULL pg_sequence", "CHECKPOINT")
            check_answers(server, serving)
            run(server, "SELECT setval('a', 71)", "DROP SEQUENCE late")
            check_answers(server, serving)
            assert serving.stop() == 0
            serving.start()
            run(server, "ALTER SEQUENCE a MAXVALUE 100")
            check_answers(server, serving)
            assert serving.stop() == 0


def test_a_value_is_never_behind(tmp_path: Path) -> None:
    """The server logs some values ahead; the primary, where it is asked, tells the value itself."""
    with small_server(19) as server:
        run(server, "CREATE SEQUENCE a", "CREATE SEQUENCE down INCREMENT -2", "SELECT nextval('a')")
        catalog = backup_of(server, tmp_path / "base")
        query = sequence_query((("public", "a"), ("public", "down")))
        flags = ("--upstream", conninfo_of(server))
        run(server, "SELECT nextval('a'), nextval('down') FROM generate_series(1, 50)")
        now(server)
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            for theirs, ours in zip(*map(sorted_rows, both(server, serving, query)), strict=True):
                step, (last, given) = int(theirs[7] or 0), (int(row[2] or 0) for row in (ours, theirs))
                assert 0 <= (last - given) // step <= 32
                assert (ours[:2], ours[3:]) == (theirs[:2], theirs[3:])
            assert serving.stop() == 0
        with Serving(server.wal_directory, catalog, tmp_path / "slots", *flags) as serving:
            theirs_answer, ours_answer = both(server, serving, query)
            assert sorted_rows(ours_answer) == sorted_rows(theirs_answer)
            assert serving.stop() == 0


def test_who_is_limited_to_publications(tmp_path: Path) -> None:
    """A user reads sequences if one of the publications has them all: as a role with and without SELECT on them."""
    with small_server(19) as server:
        run(server, "CREATE SEQUENCE a", "CREATE PUBLICATION every FOR ALL SEQUENCES", "CREATE PUBLICATION none")
        run(server, "CREATE ROLE sees LOGIN", "GRANT SELECT ON SEQUENCE a TO sees", "CREATE ROLE blind LOGIN")
        catalog = backup_of(server, tmp_path / "base")
        serving = Serving(server.wal_directory, catalog, tmp_path / "slots")
        users = Users().with_user(User("sees", publications=("every",)))
        write_users(Path(all_are_let_in(tmp_path)[-1]), users.with_user(User("blind", publications=("none",))))
        with serving:
            for user in ("sees", "blind"):
                theirs, ours = both(server, serving, sequence_query((("public", "a"),)), user)
                assert ours == theirs
            assert serving.stop() == 0


@pytest.mark.parametrize("strategy", ["wal_log", "file_copy"])
def test_databases_that_were_created_later(tmp_path: Path, strategy: str) -> None:
    """Also of a sequence that was changed in the template, and of those that were changed in the copy, or never."""
    names = [("public", name) for name in ("a", "far", "unused", "late")]
    with small_server(19) as server:
        run(server, "CREATE DATABASE model")
        run(server, SEQUENCES[0], *SEQUENCES[4:], database="model")
        catalog = backup_of(server, tmp_path / "base")
        run(server, WORK[0], WORK[3], database="model")
        run(server, f"CREATE DATABASE once TEMPLATE model STRATEGY {strategy}")
        run(server, "SELECT setval('far', 9000001000000)", database="once")
        run(server, "SELECT setval('a', 1)", "SELECT setval('unused', 2)", database="model")
        run(server, f"CREATE DATABASE twice TEMPLATE once STRATEGY {strategy}")
        run(server, "SELECT setval('late', 9)", database="once")
        now(server)
        with Serving(server.wal_directory, catalog, tmp_path / "slots") as serving:
            for database in ("twice", "once", "model"):
                theirs, ours = both(server, serving, sequence_query(names), database=database)
                assert (ours.columns, sorted_rows(ours)) == (theirs.columns, sorted_rows(theirs))
                assert len(ours.rows) == len(names)
            assert serving.stop() == 0


@pytest.mark.parametrize("has_primary", [True, False], ids=["the primary runs", "the primary is stopped"])
def test_a_subscriber(tmp_path: Path, has_primary: bool) -> None:
    """CREATE SUBSCRIPTION, REFRESH PUBLICATION and REFRESH SEQUENCES give it what the primary has."""
    with small_server(19) as publisher, small_server(19) as subscriber:
        run(publisher, *SEQUENCES, "CREATE PUBLICATION p FOR ALL TABLES, ALL SEQUENCES")
        run(publisher, "INSERT INTO t VALUES (1)", WORK[0])
        run(subscriber, *SEQUENCES, "CREATE SEQUENCE late")
        catalog = backup_of(publisher, tmp_path / "base")
        run(publisher, *WORK[1:5], "SELECT setval('t_id_seq', 6)")
        expected = value(publisher, VALUES)
        now(publisher)
        if not has_primary:
            publisher.stop()
        with Serving(publisher.wal_directory, catalog, tmp_path / "slots", "-v") as serving:
            subscribe(subscriber, serving, "connect = true")
            wait_until(lambda: value(subscriber, VALUES) == expected)
            wait_until(lambda: value(subscriber, READY) == "True")
            assert value(subscriber, "SELECT count(*) FROM t") == "1"
            if has_primary:
                run(publisher, "SELECT setval('a', 700)", "CREATE SEQUENCE fresh; SELECT setval('fresh', 44)")
                now(publisher)
                run(subscriber, "CREATE SEQUENCE fresh", "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
                wait_until(lambda: value(subscriber, "SELECT last_value FROM fresh") == "44")
                assert value(subscriber, "SELECT last_value FROM a") == "70"
                wait_until(lambda: value(subscriber, READY) == "True")
                run(subscriber, "ALTER SUBSCRIPTION s REFRESH SEQUENCES")
                wait_until(lambda: value(subscriber, "SELECT last_value FROM a") == "700")
            run(subscriber, "DROP SUBSCRIPTION s")
            assert b"REFRESH" not in content(serving.log)
            assert serving.stop() == 0
