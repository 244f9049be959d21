"""Server programs that another user could have planted are refused, and not one of them is run.

A planted program leaves a mark when it runs. The places are prepared as another user could have done it; as root some
of them belong to another user, as an ordinary user they are open to every user.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import UntrustedPathError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_errors import LocalServerError
from headwater.local_servers.server_programs import find_client, find_programs

INSTALL = Path(__file__).parents[2] / "tools" / "install_postgres.py"
PROGRAMS = ("postgres", "initdb", "pg_waldump")


class Plant:
    """A cache of server programs made of scripts that leave a mark.

    Args:
        directory: everything lies there.
    """

    def __init__(self, directory: Path) -> None:
        directory.chmod(0o755)
        self.mark = directory / "mark"
        self.mark.mkdir()
        self.mark.chmod(0o777)
        self.cache = directory / "cache"
        self.bin = self.cache / "16" / "bin"
        self.bin.mkdir(parents=True)
        for name in PROGRAMS:
            self.write(self.bin / name)

    def write(self, program: Path) -> None:
        program.write_text(f"#!/bin/sh\ntouch {self.mark}/$(basename $0)\nexit 1\n")
        program.chmod(0o755)

    def ran(self) -> list[str]:
        return sorted(path.name for path in self.mark.iterdir())


def _open_cache(plant: Plant) -> None:
    plant.cache.chmod(0o777)


def _open_installation(plant: Plant) -> None:
    plant.bin.parent.chmod(0o777)


def _open_program(plant: Plant) -> None:
    (plant.bin / "postgres").chmod(0o777)


def _open_library(plant: Plant) -> None:
    """Open up nothing that is named on a command line, but what the programs load."""
    library = plant.cache / "16" / "lib" / "pgoutput.so"
    library.parent.mkdir()
    library.write_text("")
    library.chmod(0o666)


def _linked_program(plant: Plant) -> None:
    elsewhere = _elsewhere(plant)
    plant.write(elsewhere / "postgres")
    (plant.bin / "postgres").unlink()
    (plant.bin / "postgres").symlink_to(elsewhere / "postgres")


def _linked_directory(plant: Plant) -> None:
    elsewhere = _elsewhere(plant)
    plant.bin.parent.rename(elsewhere / "16")
    plant.bin.parent.symlink_to(elsewhere / "16")


def _linked_from_a_sticky_directory(plant: Plant) -> None:
    """Link as in /tmp: whose link it is cannot be known from its owner alone."""
    own = plant.cache.rename(plant.cache.with_name("own"))
    plant.cache.mkdir()
    plant.cache.chmod(0o1777)
    (plant.cache / "16").symlink_to(own / "16")


def _elsewhere(plant: Plant) -> Path:
    directory = plant.cache.with_name("elsewhere")
    directory.mkdir()
    directory.chmod(0o777)
    return directory


def _another_owner(plant: Plant) -> None:
    for path in (plant.cache, *plant.cache.rglob("*")):
        _give_away(path)


def _another_owner_behind_a_link(plant: Plant) -> None:
    _linked_program(plant)
    elsewhere = plant.cache.with_name("elsewhere")
    elsewhere.chmod(0o755)
    _give_away(elsewhere / "postgres")


def _give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    account = pwd.getpwnam("nobody")
    os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


PREPARED = [_open_cache, _open_installation, _open_program, _open_library, _linked_program, _linked_directory]
PREPARED += [_linked_from_a_sticky_directory, _another_owner, _another_owner_behind_a_link]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    made = Plant(tmp_path)
    monkeypatch.setenv("HEADWATER_POSTGRES_DIR", str(made.cache))
    return made


def test_scripts_of_ones_own_are_run(plant: Plant) -> None:
    """So the mark of the other tests would be seen."""
    program = find_client("pg_waldump", 16)
    assert program is not None
    subprocess.run([program], check=False)
    with pytest.raises(LocalServerError), EmbeddedPostgres(find_programs(16)):
        pass
    assert plant.ran() in (["initdb", "pg_waldump"], ["pg_waldump", "postgres"])


@pytest.mark.parametrize("prepare", PREPARED)
def test_planted_programs_are_refused(plant: Plant, prepare: Callable[[Plant], None]) -> None:
    prepare(plant)
    for use in (lambda: EmbeddedPostgres(find_programs(16)).__enter__(), lambda: find_client("pg_waldump", 16)):
        with pytest.raises(UntrustedPathError, match=r'^"/.*" .*, expected .*; have its owner and mode') as caught:
            use()
        assert str(plant.cache.parent.resolve()) in caught.value.message
    assert plant.ran() == []


def test_nothing_is_installed_where_others_can_write(plant: Plant) -> None:
    plant.cache.chmod(0o777)
    run = subprocess.run([sys.executable, str(INSTALL), "16"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1)
    assert f'install_postgres: "{plant.cache.resolve()}" can be written to by others' in run.stderr
    assert plant.ran() == []
