"""Fetch PostgreSQL's own tests of decoding and subscriptions, for ours: Debian's source packages, into the cache.

Usage: ``python tools/fetch_regression_scripts.py [MAJOR ...]`` (default: all that Debian has sources of).
Needs Python and ``apt-get`` only, and no root; leaves the machine's own sources as they are. Of each package only
the places of :data:`KEPT` are kept, under ``sources/MAJOR`` beside the servers.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

from headwater.base.temporary_directories import OwnDirectory
from install_debian_postgres import Apt, for_majors
from install_postgres import installed_version, make_readable, publish

MAJORS = (15, 17, 18)
SUITES = "bookworm trixie forky sid"
KEPT = (
    *("contrib/test_decoding/", "src/test/subscription/t/", "src/test/perl/"),
    *("src/bin/pg_basebackup/t/030_pg_recvlogical.pl", "COPYRIGHT"),
)
"""Folders and files: the scripts, the Perl that some are written with, the notice of their copyright."""


def main() -> int:
    """Fetch the majors named on the command line; exit status 1 with one line when that fails."""
    return for_majors("fetch_regression_scripts", MAJORS, "sources", fetch)


def fetch(major: int, root: Path) -> None:
    """Fetch, unpack and publish the scripts of one major; what is there already is left alone."""
    target = root / str(major)
    if not missing(target):
        return
    if shutil.which("apt-get") is None:
        raise OSError("PostgreSQL's scripts are had from Debian's source packages, and this machine has no apt-get")
    with OwnDirectory(root, hidden=True) as partial:
        archive = Apt(partial / "apt", major, SUITES, "deb-src").source(f"postgresql-{major}")
        tree = partial / "tree"
        unpack(archive, tree)
        (tree / "VERSION").write_text(archive.name.partition("_")[2].partition(".orig")[0])
        make_readable(tree)
        if target.exists():
            target.rename(partial / "old")
        publish(tree, target)
    print(f"fetched the scripts of PostgreSQL {installed_version(target)} into {target}")


def unpack(archive: Path, tree: Path) -> None:
    """Unpack the files of :data:`KEPT` from a source package's archive, without the archive's own top directory."""
    with tarfile.open(archive) as tar:
        for member in tar:
            place = member.name.removeprefix("./").partition("/")[2]
            content = tar.extractfile(member) if member.isfile() and place.startswith(KEPT) else None
            if content is not None:
                path = tree / place
                if not path.resolve().is_relative_to(tree.resolve()):
                    raise ValueError(f"{archive.name} has a file outside of its tree: {member.name}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
    for place in missing(tree):
        raise ValueError(f"{archive.name} has no {place}")


def missing(tree: Path) -> list[str]:
    """List the places of :data:`KEPT` that are not there."""
    return [place for place in KEPT if not (tree / place).exists()]


if __name__ == "__main__":
    sys.exit(main())
