"""PostgreSQL's own scripts of subscriptions and of pg_recvlogical, and what they need to run.

The scripts are PostgreSQL's and no part of this project: ``tools/fetch_regression_scripts.py`` has put them beside the
servers, of the majors that Debian has sources of. A major that it has none of is given those of another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headwater.base.cache_places import server_cache
from headwater.local_servers.server_programs import (
    BUNDLED_MAJORS,
    ServerPrograms,
    bundled_programs,
    find_programs,
    readable_programs,
)

SUBSCRIPTIONS = "src/test/subscription/t"
RECVLOGICAL = "src/bin/pg_basebackup/t/030_pg_recvlogical.pl"
PERL = "src/test/perl"

MAJORS = (15, 16, 18)
SOURCE_OF = {15: 15, 16: 15, 18: 18}
"""Whose scripts a major is given: Debian has no sources of 16."""

OF_LATER = {16: {"033_run_as_table_owner": 18}}
"""Scripts that came with a major whose sources Debian has not: as a later one has them."""

LEFT_OUT = {16: {"027_nosuperuser"}}
"""Scripts that say what their major does, and the one that is given them does not; neither does a later one's."""

CLIENTS = ("psql", "pg_recvlogical", "pg_basebackup", "pg_config", "pg_controldata", "pg_dump", "pgbench")


@dataclass(frozen=True)
class Script:
    """A script to be run on a major.

    Attributes:
        major: of the servers.
        name: the file's, without its ending.
        path: the file.
        perl: the directory of the modules that it is written with.
    """

    major: int
    name: str
    path: Path
    perl: Path

    @property
    def title(self) -> str:
        """Its place among the results."""
        return f"{self.major} {self.name}"


def scripts_of(major: int) -> list[Script]:
    """List the scripts of a major, in the order of their names.

    Raises:
        FileNotFoundError: they were not fetched.
    """
    perl = _root(SOURCE_OF[major]) / PERL
    paths = _paths(SOURCE_OF[major])
    paths |= {name: _paths(source)[name] for name, source in OF_LATER.get(major, {}).items()}
    wanted = sorted(paths.keys() - LEFT_OUT.get(major, set()))
    return [Script(major, name, paths[name], perl) for name in wanted]


def _paths(source: int) -> dict[str, Path]:
    root = _root(source)
    if not (root / SUBSCRIPTIONS).is_dir():
        raise FileNotFoundError(f"there are no scripts of PostgreSQL {source}: run make subscription-tests")
    return {path.stem: path for path in (root / SUBSCRIPTIONS).glob("*.pl")} | {"pg_recvlogical": root / RECVLOGICAL}


def _root(source: int) -> Path:
    return server_cache() / "sources" / str(source)


def lay_out_programs(major: int, directory: Path) -> None:
    """Make links to a major's programs, of the server and of clients, all in one directory."""
    directory.mkdir()
    server = readable_programs(find_programs(major, plugin="test_decoding"))
    installations = [server]
    if major in BUNDLED_MAJORS and not server.has_program("psql"):
        installations.append(readable_programs(bundled_programs(major)))
    for name in ("postgres", "initdb", "pg_ctl", *CLIENTS):
        (directory / name).symlink_to(_program(name, installations))


def _program(name: str, installations: list[ServerPrograms]) -> Path:
    return next(programs.program(name) for programs in installations if programs.has_program(name))
