"""The servers that tests need: ``make servers`` installs all but those of a major that is not released yet.

Where one is missing, a test fails: what is on a machine does not decide what is tested.
"""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from headwater.local_servers.server_programs import BUNDLED_MAJORS, ServerPrograms, find_client, find_programs

UNRELEASED = 19
"""Of Debian's development packages (``make servers-19``): its tests are slow ones."""

_PLUGINS_ALLOWED = "output_plugin_libraries"
WITH_LZ4 = 15
"""Of Debian, where the machine is."""

_WITH_ALL_PROGRAMS = frozenset({*BUNDLED_MAJORS, UNRELEASED})


def is_packaged(major: int) -> bool:
    """Tell whether there is a package of this major for this machine."""
    return major != 14 or platform.machine() != "aarch64"


def is_of_debian(programs: ServerPrograms) -> bool:
    """Tell whether an installation is built as Debian builds it, with every method of compression."""
    return (programs.root / "usr").is_dir()


def programs_of(major: int, plugin: str | None = None) -> ServerPrograms:
    """Find a major's installation; the test is left out on a machine that there is no package for."""
    if not is_packaged(major):
        pytest.skip(f"there is no package of PostgreSQL {major} for {platform.machine()}")
    return find_programs(major, plugin=plugin)


def letting_name(programs: ServerPrograms, plugin: str) -> dict[str, str]:
    """Return settings with which slots of a plugin can be made, for a server with a list of allowed plugins.

    Minor releases from August 2026 on have the list; older ones refuse a setting that they do not know.
    """
    command = [str(programs.program("postgres")), "--describe-config"]
    described = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.partition("\t")[0] for line in described.splitlines()}
    return {_PLUGINS_ALLOWED: plugin} if _PLUGINS_ALLOWED in names else {}


def client_of(name: str, major: int) -> Path:
    """Find a client program of a major; the test is left out if its packages do not have it."""
    program = find_client(name, major)
    if program is None:
        assert major not in _WITH_ALL_PROGRAMS
        pytest.skip(f"the packages of PostgreSQL {major} have no {name}")
    return program
