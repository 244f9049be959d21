"""Kills while rows are put aside, tables are paused, and paused tables go on: nothing is lost, or comes twice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from apply.refused_and_killed import CHECKS, KEPT, MEND, TABLES, require_all, run, run_with_kills, write
from apply.scripts.script_runner import Script, Servers, both_of, new_script
from headwater.pg.lsn import Lsn

KILLS = [pytest.param(2, marks=pytest.mark.slow), pytest.param(50, marks=pytest.mark.slow)]
MOST_STEPS = 120


@pytest.fixture(scope="module", params=[18, pytest.param(16, marks=pytest.mark.slow)])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Run both servers of a major."""
    with both_of(request.param) as started:
        yield started


@pytest.fixture
def script(servers: Servers) -> Iterator[Script]:
    """Begin a script with tables, of which the target refuses rows."""
    with new_script(servers) as begun:
        begun.everywhere(*TABLES)
        begun.on_target(*CHECKS)
        begun.on_source("CREATE PUBLICATION p FOR TABLE t, other, tree")
        yield begun


def end_of(script: Script) -> str:
    """Return the end of the publisher's WAL, behind which there is one more record."""
    end = str(Lsn(script.end()))
    script.end()
    return end


def letters_of(script: Script) -> list[str]:
    """Return the dead letters: table, kind and key of each."""
    return script.rows(KEPT)


@pytest.mark.parametrize("kills", KILLS)
def test_killed_while_rows_are_put_aside(script: Script, tmp_path: Path, kills: int) -> None:
    chance, log = random.Random(kills), tmp_path / "log"
    words = script.words("sub", ["p"], "--disable-on-error", "--dead-letters", "*.*")
    assert run(words, end_of(script), None, log) == 0
    done = count = 0
    while done < kills:
        write(script, chance, count * 30 + 1, 30)
        count += 1
        steps = [chance.randint(1, MOST_STEPS) for _ in range(3)]
        done += run_with_kills(words, end_of(script), steps, log)
        # Each row of the source is there, or among the letters, once.
        keys = set(script.source_rows("SELECT id FROM t"))
        letters = [line.split("|")[2] for line in letters_of(script) if line.startswith("t|INSERT")]
        assert len(letters) == len(set(letters))
        assert sorted([*script.rows("SELECT id FROM t"), *letters]) == sorted(keys)
        assert script.rows("SELECT id, part FROM other ORDER BY 1, 2") == script.source_rows(
            "SELECT id, part FROM other ORDER BY 1, 2"
        )


@pytest.mark.parametrize("kills", [2, KILLS[1]])
def test_killed_while_tables_are_paused_and_go_on(script: Script, tmp_path: Path, kills: int) -> None:
    chance, log = random.Random(kills), tmp_path / "log"
    words = script.words("sub", ["p"], "--disable-on-error")
    assert run(words, end_of(script), None, log) == 0
    done = count = 0
    while done < kills:
        write(script, chance, count * 30 + 1, 30)
        count += 1
        steps = [chance.randint(1, MOST_STEPS) for _ in range(3)]
        done += run_with_kills([*words, "--pause-on-error"], end_of(script), steps, log)
        assert script.rows("SELECT count(*) FROM headwater.paused_tables") in (["1"], ["2"])
        script.on_target(*MEND)
        write(script, chance, count * 30 + 1, 5)
        count += 1
        # Few steps: what was kept is applied before all else.
        steps = [chance.randint(1, 40) for _ in range(3)]
        done += run_with_kills([*words, "--resume-tables", "*.*"], end_of(script), steps, log)
        require_all(script)
        script.on_target("TRUNCATE t, tree", *CHECKS)
        script.on_source("TRUNCATE t, tree")
        assert run(words, end_of(script), None, log) == 0
