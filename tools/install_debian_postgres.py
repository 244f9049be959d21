"""Install PostgreSQL from Debian's packages, for the tests, into the servers' cache.

Usage: ``python tools/install_debian_postgres.py [MAJOR ...]`` (default: the one that is not released yet). Needs
Python, ``apt-get`` and ``dpkg-deb`` only, and no root; leaves the machine's own packages and sources as they are, and
takes nothing of what is installed.

The packages are those of the suites that have the major, wherever the machine's own sources say that Debian is. They
may be built for other libraries than the machine has. So the libraries they name come along, the C library with its
loader too, and each program is a script that starts it with them. The tree is that of the packages, as a server finds
its files by their place relative to itself; ``bin``, ``lib`` and ``share/postgresql`` lead where the cache's other
installations have them. Known gaps: time zones are the machine's own (``/usr/share/zoneinfo``), as Debian builds it so;
there is no JIT, whose compiler would be most of what is fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headwater.base.temporary_directories import OwnDirectory
from headwater.errors import HeadwaterError
from install_postgres import check, installed_version, make_readable, open_cache, publish

MAJORS = (19,)
SUITES = {
    15: "bookworm bookworm-security",
    17: "trixie trixie-security",
    18: "sid",
    19: "sid experimental",
}
"""Where a major is. A suite has one version of it at a time: none can be asked for, the newest is what there is."""
SECURITY = "-security"
LEFT_OUT = "libllvm"
"""Libraries of the JIT compiler alone."""
TIME_ZONES = Path("/usr/share/zoneinfo")
PROGRAM = """#!/bin/sh
# Starts the program with the C library that it was built for.
root=$(dirname "$(readlink -f "$0")")/../../../../..
exec "$root/{loader}" --inhibit-cache --library-path "$root/{libraries}" --argv0 "$0" "$root/{program}" "$@"
"""


class NoDebianError(OSError):
    """This machine does not get its packages from Debian."""


def main() -> int:
    """Install the majors named on the command line; exit status 1 with one line when that fails."""
    return for_majors("install_debian_postgres", MAJORS, "", install)


def for_majors(name: str, known: Sequence[int], folder: str, work: Callable[[int, Path], None]) -> int:
    """Work for the majors named on the command line, or for all, each whatever becomes of the others.

    Args:
        name: of the tool; known: majors that it can be called for.
        folder: of the servers' cache, which ``work`` is given beside each major.
        work: what is done.

    Returns:
        exit status 1, after a line for each major that failed; 0 if none did.
    """
    majors = [int(argument) for argument in sys.argv[1:] if not argument.startswith("--")] or list(known)
    reasons = {major: _reason(major, folder, work) for major in majors}
    failed = {major: reason for major, reason in reasons.items() if reason is not None}
    for major, reason in failed.items():
        print(f"{name}: PostgreSQL {major}: {reason}", file=sys.stderr)
    return 1 if failed else 0


def _reason(major: int, folder: str, work: Callable[[int, Path], None]) -> str | None:
    """Work for one major; return why that failed, None if it did not."""
    try:
        work(major, open_cache(folder))
    except (HeadwaterError, OSError, ValueError) as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or "").strip().splitlines()
        return f"{error.cmd[0]} failed: {lines[-1] if lines else error}"
    return None


def install(major: int, root: Path) -> None:
    """Fetch, unpack, check and publish one version; what is there already is left alone."""
    if installed_version(root / str(major)) is None:
        install_newest(major, root)


def install_newest(major: int, root: Path) -> None:
    """Fetch, unpack, check and publish what a major's suites have now, unless it is there already."""
    target = root / str(major)
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise NoDebianError(f"PostgreSQL {major} is had from Debian's packages, and this machine has no {program}")
    if not TIME_ZONES.is_dir():
        raise OSError(f"there is no {TIME_ZONES}, which the server reads: install tzdata")
    with OwnDirectory(root, hidden=True) as partial:
        apt = Apt(partial / "apt", major, SUITES[major])
        version = apt.version(f"postgresql-{major}")
        if installed_version(target) == version:
            return
        native = partial / "native"
        for package in apt.download(f"postgresql-{major}", f"postgresql-client-{major}"):
            run("dpkg-deb", "-x", str(package), str(native))
        arrange(native, major)
        (native / "VERSION").write_text(version)
        make_readable(native)
        check(native, major)
        if target.exists():
            target.rename(partial / "old")
        publish(native, target)
    print(f"installed PostgreSQL {version} in {target}")


class Apt:
    """Apt with sources, lists and archives of its own.

    Args:
        place: a directory to make, for all that apt writes.
        major: the version that is looked for, for errors.
        suites: where packages are looked for.
        kind: ``deb`` for packages, ``deb-src`` for their sources.

    Raises:
        OSError: the machine's sources name no archive of Debian, or it cannot be read.
    """

    def __init__(self, place: Path, major: int, suites: str, kind: str = "deb") -> None:
        self._archives = place / "archives"
        for directory in (place / "lists" / "partial", self._archives):
            directory.mkdir(parents=True)
        sources = place / "own.sources"
        sources.write_text(stanzas(major, kind, suites.split()))
        self._options = [
            *("-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null"),
            *("-o", "Dir::Etc::Preferences=/dev/null", "-o", "Dir::Etc::PreferencesParts=/dev/null"),
            *("-o", f"Dir::State::Lists={place / 'lists'}", "-o", f"Dir::Cache={place}"),
            *("-o", "Dir::State::Status=/dev/null", "-o", "Acquire::Languages=none"),
            *("-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"),
            *("-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1"),
        ]
        run("apt-get", *self._options, "update", "-q")

    def download(self, *packages: str) -> list[Path]:
        """Download the archives of packages, and of all libraries that they need, directly or not."""
        wanted, waiting = dict.fromkeys(packages), list(packages)
        while waiting:
            needed = set(self._needed(waiting))
            waiting = sorted(needed - wanted.keys())
            wanted.update(dict.fromkeys(waiting))
        run("apt-get", *self._options, "download", "-q", *wanted, directory=self._archives)
        return sorted(self._archives.glob("*.deb"))

    def source(self, package: str) -> Path:
        """Download the archive of a package's source as its authors released it."""
        run("apt-get", *self._options, "source", "--download-only", "-q", package, directory=self._archives)
        return next(self._archives.glob("*.orig.tar.*[!c]"))

    def version(self, package: str) -> str:
        """Find the version of a package that :meth:`download` takes."""
        shown = run("apt-cache", *self._options, "show", "--no-all-versions", package)
        return next(line.removeprefix("Version: ") for line in shown.splitlines() if line.startswith("Version: "))

    def _needed(self, packages: list[str]) -> Iterator[str]:
        shown = run("apt-cache", *self._options, "show", "--no-all-versions", *packages)
        for line in shown.splitlines():
            if line.startswith(("Depends: ", "Pre-Depends: ")):
                names = re.findall(r"(?:^|, |: )((?:lib|zlib)[a-z0-9.+-]*)", line)
                yield from (name for name in names if not name.startswith(LEFT_OUT))


def stanzas(major: int, kind: str, suites: Sequence[str]) -> str:
    """Write suites of the archives that the machine's own sources name."""
    address, key = archive(major)
    of_security = [suite for suite in suites if suite.endswith(SECURITY)]
    released = [suite for suite in suites if suite not in of_security]
    places = [(address, released), (re.sub(r"/debian(?=/?$)", "/debian-security", address), of_security)]
    signed = f"Signed-By: {key}\n" if key else ""
    return "\n".join(
        f"Types: {kind}\nURIs: {place}\nSuites: {' '.join(names)}\nComponents: main\n{signed}"
        for place, names in places
        if names
    )


def archive(major: int) -> tuple[str, str]:
    """Find the address of Debian, and the file of keys that is named with it, if there is one."""
    shown = run("apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(SIGNED_BY)")
    for line in shown.splitlines():
        address, suite, key = line.split("|")
        if re.search(r"/debian/?$", address) and "-" not in suite:
            return address, "" if key.startswith("$") else key
    raise NoDebianError(
        f"PostgreSQL {major} is had from Debian's packages, which apt's sources on this machine do not name"
    )


def arrange(native: Path, major: int) -> None:
    """Leave programs, libraries and what the server shares; put scripts in the programs' places."""
    libraries = native / "lib"
    if libraries.is_dir():  # where packages are older than the merge of /lib and /usr/lib
        shutil.copytree(libraries, native / "usr" / "lib", symlinks=True, dirs_exist_ok=True)
    for name in os.listdir(native):
        if name != "usr":
            remove(native / name)
    for name in os.listdir(native / "usr" / "share"):
        if name != "postgresql":
            remove(native / "usr" / "share" / name)
    home = Path("usr", "lib", "postgresql", str(major))
    for path in (native / home / "lib").glob("llvmjit*"):
        remove(path)
    remove(native / home / "lib" / "bitcode")
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
        path.unlink(missing_ok=True)


def run(*command: str, directory: Path | None = None) -> str:
    """Run a command and return what it prints, in no language but its own; raises when it fails."""
    environment = os.environ | {"LC_ALL": "C"}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
