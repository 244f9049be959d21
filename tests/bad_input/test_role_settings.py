"""Settings of databases and roles: values are printed as a session of that role in that database prints them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from bad_input.command import CommandHere
from bad_input.servers import PEEK, copy_wal, make_slot, run, small_server
from headwater.cli.shared_flags import SourceFlags
from headwater.cli.slot import CreateFlags, create_command

pytestmark = [pytest.mark.server]

ROLES = ("postgres", "app", "reader")


@dataclass(frozen=True)
class Made:
    """A backup and WAL; what a slot says to sessions of roles, by (database, role)."""

    backup: Path
    wal: Path
    slots: dict[str, str]
    expected: dict[tuple[str, str], bytes]


@pytest.fixture(scope="module", params=[pytest.param(16, marks=pytest.mark.slow), 18], ids=lambda major: f"pg{major}")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    directory = tmp_path_factory.mktemp("roles")
    with small_server(request.param, timezone="UTC") as server:
        run(
            server,
            "CREATE ROLE app SUPERUSER LOGIN",
            "CREATE ROLE reader SUPERUSER LOGIN",
            "CREATE DATABASE other",
            "ALTER ROLE ALL SET bytea_output = 'escape'",
            "ALTER DATABASE postgres SET TimeZone = 'Africa/Cairo'",
            "ALTER DATABASE postgres SET TimeZone = 'Europe/Oslo'",
            "ALTER DATABASE other SET timezone = 'America/Lima'",
            "ALTER DATABASE other SET search_path = shop, public, missing",
            "ALTER ROLE app SET TimeZone = 'Asia/Tokyo'",
            "ALTER ROLE app SET work_mem = '8MB'",
            "ALTER ROLE app IN DATABASE other SET timezone = 'Asia/Kolkata'",
            "ALTER ROLE app IN DATABASE other SET bytea_output = 'hex'",
            "ALTER ROLE reader SET timezone = 'Asia/Seoul'",
            "ALTER ROLE reader RESET timezone",
            "BEGIN",
            "ALTER DATABASE postgres SET timezone = 'Asia/Baku'",
            "ROLLBACK",
        )
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        slots, expected = {}, {}
        for database in ("postgres", "other"):
            slots[database] = make_slot(server, database, database)
            for schema in ("app", "shop"):
                run(server, f"CREATE SCHEMA {schema}", f"CREATE TYPE {schema}.mood AS ENUM ('a')", database=database)
            columns = "w timestamptz, b bytea, one app.mood, two shop.mood[], three regtype"
            run(server, f"CREATE TABLE public.t ({columns})", database=database)
            values = "'2026-01-02 03:04:05+00', '\\x0178', 'a', '{a}', 'app.mood'"
            run(server, f"INSERT INTO public.t VALUES ({values})", database=database)
            for role in ROLES:
                with server.connect(database, user=role) as connection:
                    rows = connection.execute(PEEK, [database]).fetchall()
                text = "".join("\t".join(row) + "\n" for row in rows)
                expected[database, role] = text.encode()
        server.stop()
        return Made(backup, copy_wal(server, directory / "wal"), slots, expected)


@pytest.mark.parametrize("database", ["postgres", "other"])
@pytest.mark.parametrize("role", ROLES)
def test_a_session_of_a_role(headwater: CommandHere, made: Made, database: str, role: str) -> None:
    window = ["--wal", made.wal, "--catalog", made.backup, "--database", database, "--start", made.slots[database]]
    user = [] if role == "postgres" else ["--user", role]
    assert headwater(*window, *user, "--with-lsn").check_passed() == made.expected[database, role]


def test_they_differ(made: Made) -> None:
    assert len(set(made.expected.values())) == 4
    names = {key: (b"one[mood]" in text, b"two[mood[]]" in text) for key, text in made.expected.items()}
    shop, own, neither = (False, True), (True, False), (False, False)
    assert names == {key: shop if key[0] == "other" else own if key[1] == "app" else neither for key in names}
    assert made.expected["postgres", "reader"] == made.expected["postgres", "postgres"]


def test_a_slot_keeps_the_role(headwater: CommandHere, made: Made, tmp_path: Path) -> None:
    source = SourceFlags(wal=[str(made.wal)], catalog=str(made.backup), database="other")
    create_command.run(CreateFlags(path=tmp_path / "slot", source=source, user="app"))
    text = headwater("--slot", tmp_path / "slot", "--with-lsn").check_passed()
    assert text.endswith(made.expected["other", "app"])


def test_the_role_is_the_user_of_a_path_that_is_asked_for(headwater: CommandHere, made: Made) -> None:
    window = ["--wal", made.wal, "--catalog", made.backup, "--database", "other", "--set", 'search_path="$user",shop']
    assert b"one[app.mood]:'a' two[mood[]]:'{a}' three[regtype]:'app.mood'" in headwater(*window).check_passed()
    text = headwater(*window, "--user", "app").check_passed()
    assert b"one[mood]:'a' two[shop.mood[]]:'{a}' three[regtype]:'mood'" in text


def test_unknown_role(headwater: CommandHere, made: Made) -> None:
    window = ["--wal", made.wal, "--catalog", made.backup, "--database", "postgres"]
    headwater(*window, "--user", "nobody").check_failed('role "nobody" does not exist', f"in {made.backup}")


def test_asked_for_goes_first(headwater: CommandHere, made: Made) -> None:
    window = ["--wal", made.wal, "--catalog", made.backup, "--database", "postgres", "--set", "TimeZone=Asia/Tokyo"]
    assert b"12:04:05+09" in headwater(*window).check_passed()


def test_with_a_state(headwater: CommandHere, made: Made, tmp_path: Path) -> None:
    states = tmp_path / "states"
    states.mkdir()
    window = ["--wal", made.wal, "--database", "postgres"]
    headwater(*window, "--catalog", made.backup, "--keep-states", states).check_passed()
    for flag in ("--from-state", "--catalog"):
        state = next(states.iterdir())
        run = headwater(*window, flag, state, "--user", "app")
        run.check_failed("a role's settings cannot be had with a state", "--set NAME=VALUE", status=2)
