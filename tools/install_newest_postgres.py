"""Install the newest minor release of each major that any registry has, for the tests, into the servers' cache.

Usage: ``python tools/install_newest_postgres.py [--kept] [MAJOR ...]`` (default: all that are released), into the
folder ``newest`` of the cache: what is run with that folder as its cache uses them. With ``--kept`` into the cache
itself, where Debian's stay as they were when they were installed; on a machine that is not Debian's, Maven's stand for
them.

Debian has a minor release first, in the suite of its major. A suite has one version at a time, so none is named here:
each run asks what the suite has now, and replaces what was installed of an older one. What Debian has not comes from
Maven Central, in the build that npm's packages are made of; it keeps all versions, so they are named here.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from install_debian_postgres import NoDebianError, for_majors, install_newest
from install_postgres import WITHOUT, extract, install

FOLDER = "newest"
OF_DEBIAN = (15, 17, 18)
OF_MAVEN = {14: "14.24.0", 16: "16.15.0"}
OF_MAVEN_ELSEWHERE = {15: "15.19.0", 17: "17.11.0", 18: "18.6.0"}
MACHINES = {"x86_64": "linux-amd64", "aarch64": "linux-arm64v8"}


def main() -> int:
    """Install the majors named on the command line; exit status 1 with a line for each that failed."""
    known = {*OF_DEBIAN, *OF_MAVEN} - WITHOUT.get(platform.machine(), frozenset())
    is_kept = "--kept" in sys.argv[1:]
    return for_majors("install_newest_postgres", sorted(known), "" if is_kept else FOLDER, keep if is_kept else renew)


def keep(major: int, root: Path) -> None:
    """Install one major as it is newest, unless it is there from its source."""
    if major in OF_DEBIAN and (root / str(major) / "usr").is_dir():
        return
    try:
        renew(major, root)
    except NoDebianError as error:
        print(f"{error}: {OF_MAVEN_ELSEWHERE[major]} is taken instead", file=sys.stderr)
        install(major, OF_MAVEN_ELSEWHERE[major], root, fetch)


def renew(major: int, root: Path) -> None:
    """Install one major as it is newest now."""
    if major in OF_MAVEN:
        install(major, OF_MAVEN[major], root, fetch)
    else:
        install_newest(major, root)


def fetch(version: str, directory: Path) -> Path:
    """Fetch and unpack one version of Maven Central; where the installation is."""
    artifact = f"io.zonky.test.postgres:embedded-postgres-binaries-{MACHINES[platform.machine()]}:{version}"
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"]
    subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True)
    native = directory / "native"
    with zipfile.ZipFile(next(directory.glob("*.jar"))) as jar:
        name = next(name for name in jar.namelist() if name.endswith(".txz"))
        with jar.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as tar:
            extract(tar, native)
    return native


if __name__ == "__main__":
    sys.exit(main())
