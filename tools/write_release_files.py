"""Write files as a release leaves them, for the releases after it: ``python tools/write_release_files.py ARCHIVE``.

A real PostgreSQL 16 runs the two scripts of ``examples/release_files``. The command ``headwater`` beside this Python,
or the one that ``--command`` names, makes slots, states and lakes up to the end of the first script. It also says what
comes after it. ``ARCHIVE`` (``.tar.xz``) then has, in one folder:

- ``wal``, the segments of both scripts, and ``catalog``, exported before them;
- ``slots/PLUGIN``, ``states``, ``lakes/FORMAT-MODE``: where the release came to the end of the first script;
- ``after/PLUGIN``: what the slots give after it; ``facts.json``: the version and the LSN.

``tests/formats`` reads it. Iceberg tables are left out: they name their files by absolute paths.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg.conninfo

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import bundled_programs
from make_sample import run

SCRIPTS = Path(__file__).parents[1] / "examples" / "release_files"
PLUGINS = {
    "test_decoding": (),
    "pgoutput": ("-o", "proto_version=1", "-o", "publication_names=all"),
    "wal2json": (),
    "debezium": ("-o", "topic.prefix=shop"),
}
LAKES = [(form, mode) for form in ("parquet", "delta") for mode in ("changelog", "current", "history")]


@dataclass(frozen=True)
class Release:
    """The command of a release, and the window that it works on.

    Attributes:
        command: path of the program.
        directory: what it writes to; has ``wal`` and ``catalog``.
        middle: the LSN between the two scripts.
    """

    command: Path
    directory: Path
    middle: str

    def write(self) -> None:
        """Make slots, states and lakes up to the middle, and say what the slots give after it."""
        for plugin, options in PLUGINS.items():
            slot = f"slots/{plugin}"
            self._run("slot", "create", slot, *self._window, "--plugin", plugin, *options)
            self._run("decode", "--slot", slot, "--end", self.middle, "--out", "before")
            (self.directory / "before").unlink()
            self._run("decode", "--slot", slot, "--peek", "--out", f"after/{plugin}")
        self._run("decode", *self._window, "--end", self.middle, "--keep-states", "states", "--out", "before")
        (self.directory / "before").unlink()
        for form, mode in LAKES:
            target = "--to", f"lakes/{form}-{mode}", "--format", form, "--mode", mode, "--snapshot", "never"
            self._run("land", *self._window, "--end", self.middle, *target)

    @property
    def version(self) -> str:
        """The version that the command says it has."""
        return self._run("--version").split()[-1]

    @property
    def _window(self) -> tuple[str, ...]:
        return "--wal", "wal", "--catalog", "catalog"

    def _run(self, *words: str) -> str:
        done = subprocess.run([str(self.command), *words], cwd=self.directory, check=True, stdout=subprocess.PIPE)
        return done.stdout.decode()


def write_release_files(command: Path, directory: Path) -> None:
    """Fill an empty directory with what the release of a command leaves."""
    for name in ("slots", "after", "lakes", "states"):
        (directory / name).mkdir()
    with EmbeddedPostgres(bundled_programs(16), wal_segment_megabytes=1, autovacuum=False) as server:
        run(server, SCRIPTS / "before.sql")
        dsn = psycopg.conninfo.make_conninfo(**server.connection_info())
        export = [str(command), "catalog", "export", "--checkpoint", dsn, str(directory / "catalog")]
        subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
        run(server, SCRIPTS / "first.sql")
        with server.connect() as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        run(server, SCRIPTS / "second.sql")
        server.stop()
        shutil.copytree(server.wal_directory, directory / "wal")
    release = Release(command, directory, row[0])
    release.write()
    facts = {"version": release.version, "middle": release.middle}
    (directory / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")


def pack(directory: Path, archive: Path) -> None:
    """Pack a directory, with no times and owners."""
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in _files(directory):
            member = tarfile.TarInfo(path.relative_to(directory).as_posix())
            data = path.read_bytes()
            member.size, member.mode = len(data), path.stat().st_mode & 0o777
            tar.addfile(member, io.BytesIO(data))


def _files(directory: Path) -> Iterator[Path]:
    yield from (path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != "archive_status")


def main() -> None:
    """Read the arguments and write the archive."""
    parser = argparse.ArgumentParser(description="Write files as a release leaves them.")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--command", type=Path, default=Path(sys.executable).with_name("headwater"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        write_release_files(arguments.command.absolute(), Path(directory))
        pack(Path(directory), arguments.archive)
    print(f"{arguments.archive}: {arguments.archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
