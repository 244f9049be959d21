"""Install a PostgreSQL that is not released yet, for the tests: Debian's packages of it, into the servers' cache.

Usage: ``python tools/install_debian_postgres.py [MAJOR ...]`` (default: every version the tests know). Needs Python,
``apt-get`` and ``dpkg-deb`` only, and no root; leaves the machine's own packages and sources as they are.

The packages are those of Debian's development suites, wherever the machine's own sources say that Debian is. They are
built for newer libraries than the machine has, so the libraries they name come along, the C library with its loader
too, and each program is a script that starts it with them. The tree is that of the packages, as a server finds its
files by their place relative to itself; ``bin``, ``lib`` and ``share/postgresql`` lead where the cache's other
installations have them. Known gap: time zones are the machine's own (``/usr/share/zoneinfo``), as Debian builds it so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.temporary_directories import OwnDirectory
from install_postgres import check, installed_version, make_readable, open_cache, publish

MAJORS = (19,)
SUITES = "sid experimental"
TIME_ZONES = Path("/usr/share/zoneinfo")
PROGRAM = """#!/bin/sh
# Starts the program with the C library that it was built for.
root=$(dirname "$(readlink -f "$0")")/../../../../..
exec "$root/{loader}" --inhibit-cache --library-path "$root/{libraries}" --argv0 "$0" "$root/{program}" "$@"
"""


def main() -> int:
    """Install the majors named on the command line; exit status 1 with one line when that fails."""
    return for_majors("install_debian_postgres", MAJORS, "", install)


def for_majors(name: str, known: Sequence[int], folder: str, work: Callable[[int, Path], None]) -> int:
    """Do something for the majors named on the command line, or all, each whatever becomes of the others.

    Args:
        name: of the tool; known: majors that it can be called for.
        folder: of the servers' cache, which ``work`` is given beside each major.
        work: what is done.

    Returns:
        exit status 1, after a line for each major that failed; 0 if none did.
    """
    majors = [int(argument) for argument in sys.argv[1:]] or list(known)
    reasons = {major: _reason(major, folder, work) for major in majors}
    failed = {major: reason for major, reason in reasons.items() if reason is not None}
    for major, reason in failed.items():
        print(f"{name}: PostgreSQL {major}: {reason}", file=sys.stderr)
    return 1 if failed else 0


def _reason(major: int, folder: str, work: Callable[[int, Path], None]) -> str | None:
    """Do it for one major; why that failed, None if it did not."""
    try:
        work(major, open_cache(folder))
    except (HeadwaterError, OSError, ValueError) as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout or "").strip().splitlines()
        return f"{error.cmd[0]} failed: {said[-1] if said else error}"
    return None


def install(major: int, root: Path) -> None:
    """Fetch, unpack, check and publish one version; what is there already is left alone."""
    target = root / str(major)
    if installed_version(target) is not None:
        return
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise OSError(f"PostgreSQL {major} is had from Debian's packages, and this machine has no {program}")
    if not TIME_ZONES.is_dir():
        raise OSError(f"there is no {TIME_ZONES}, which the server reads: install tzdata")
    with OwnDirectory(root, hidden=True) as partial:
        apt = Apt(partial / "apt", major)
        native = partial / "native"
        for package in apt.download(f"postgresql-{major}", f"postgresql-client-{major}"):
            run("dpkg-deb", "-x", str(package), str(native))
        version = apt.version(f"postgresql-{major}")
        arrange(native, major)
        (native / "VERSION").write_text(version)
        make_readable(native)
        check(native, major)
        publish(native, target)
    print(f"installed PostgreSQL {version} in {target}")


class Apt:
    """Apt with sources, lists and archives of its own.

    Args:
        place: a directory to make, for all that apt writes.
        major: the version that is looked for, for errors.
        kind: ``deb`` for packages, ``deb-src`` for their sources.
        suites: where they are looked for.

    Raises:
        OSError: the machine's sources name no archive of Debian, or it cannot be read.
    """

    def __init__(self, place: Path, major: int, kind: str = "deb", suites: str = SUITES) -> None:
        self._archives = place / "archives"
        for directory in (place / "lists" / "partial", self._archives):
            directory.mkdir(parents=True)
        sources = place / "own.sources"
        sources.write_text(stanza(major, kind, suites))
        self._options = [
            *("-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null"),
            *("-o", f"Dir::State::Lists={place / 'lists'}", "-o", f"Dir::Cache={place}"),
            *("-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1"),
        ]
        run("apt-get", *self._options, "update", "-q")

    def download(self, *packages: str) -> list[Path]:
        """The archives of packages, and of all libraries that they need, directly or not."""
        wanted, waiting = dict.fromkeys(packages), list(packages)
        while waiting:
            needed = set(self._needed(waiting))
            waiting = sorted(needed - wanted.keys())
            wanted.update(dict.fromkeys(waiting))
        run("apt-get", *self._options, "download", "-q", *wanted, directory=self._archives)
        return sorted(self._archives.glob("*.deb"))

    def source(self, package: str) -> Path:
        """The archive of a package's source as its authors released it."""
        run("apt-get", *self._options, "source", "--download-only", "-q", package, directory=self._archives)
        return next(self._archives.glob("*.orig.tar.*[!c]"))

    def version(self, package: str) -> str:
        """The version of a package that :meth:`download` takes."""
        shown = run("apt-cache", *self._options, "show", "--no-all-versions", package)
        return next(line.removeprefix("Version: ") for line in shown.splitlines() if line.startswith("Version: "))

    def _needed(self, packages: list[str]) -> Iterator[str]:
        shown = run("apt-cache", *self._options, "show", "--no-all-versions", *packages)
        for line in shown.splitlines():
            if line.startswith(("Depends: ", "Pre-Depends: ")):
                yield from re.findall(r"(?:^|, |: )((?:lib|zlib)[a-z0-9.+-]*)", line)


def stanza(major: int, kind: str, suites: str) -> str:
    """Suites of the archive that the machine's own sources name."""
    shown = run("apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(SIGNED_BY)")
    for line in shown.splitlines():
        address, suite, key = line.split("|")
        if re.search(r"/debian/?$", address) and "-" not in suite:
            signed = f"Signed-By: {key}\n" if key and not key.startswith("$") else ""
            return f"Types: {kind}\nURIs: {address}\nSuites: {suites}\nComponents: main\n{signed}"
    raise OSError(f"PostgreSQL {major} is had from Debian's archive, and apt's sources on this machine do not name it")


def arrange(native: Path, major: int) -> None:
    """Leave programs, libraries and what the server shares; put scripts in the programs' places."""
    for name in os.listdir(native):
        if name != "usr":
            remove(native / name)
    for name in os.listdir(native / "usr" / "share"):
        if name != "postgresql":
            remove(native / "usr" / "share" / name)
    home = Path("usr", "lib", "postgresql", str(major))
    write_programs(native, home)
    (native / "bin").symlink_to(home / "bin")
    (native / "lib").symlink_to(home / "lib")
    (native / "share").mkdir()
    (native / "share" / "postgresql").symlink_to(Path("..", "usr", "share", "postgresql", str(major)))


def write_programs(native: Path, home: Path) -> None:
    """Move a version's programs aside, and write scripts that start them where they were."""
    loader = next((native / "usr").glob("lib*/**/ld-linux*.so.*")).relative_to(native)
    libraries = next((native / "usr" / "lib").glob("*/libc.so.6")).parent.relative_to(native)
    (native / home / "bin").rename(native / home / "programs")
    (native / home / "bin").mkdir()
    for program in (native / home / "programs").iterdir():
        script = native / home / "bin" / program.name
        place = program.relative_to(native)
        script.write_text(PROGRAM.format(loader=loader, libraries=libraries, program=place))
        script.chmod(0o755)


def remove(path: Path) -> None:
    """Remove a file, a link or a directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def run(*command: str, directory: Path | None = None) -> str:
    """What a command prints, in no language but its own; raises when it fails."""
    environment = os.environ | {"LC_ALL": "C"}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
