"""Debezium's own connector on a server's slots, in a Java process of its own.

The slots are made before the workload, one for each way in which the connector is asked. They are read after it, up to
a logical message. The jars are those that ``make test-peers`` has Maven copy.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import ServerPrograms, find_programs

HERE = Path(__file__).parent
JARS = HERE.parents[1] / "build" / "peers"
PREFIX, PUBLICATION, END = "shop", "everything", "the end of the run"
DATABASE = "postgres"

Properties = Mapping[str, str]

NULLS = {
    "key.converter.replace.null.with.default": "false",
    "value.converter.replace.null.with.default": "false",
}
"""The converter shows NULL as such, not as the column's default, which Headwater does not know."""

WAYS: Mapping[str, Properties] = {
    "plain": {
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "header.converter.schemas.enable": "false",
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",
    },
    "schemas": {"skipped.operations": "none", "provide.transaction.metadata": "true"},
    "schemas off": {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"},
    "strings": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "interval.handling.mode": "string",
        "binary.handling.mode": "hex",
        "hstore.handling.mode": "map",
    },
    "numbers": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "binary.handling.mode": "base64",
        "unavailable.value.placeholder": "nope",
    },
    "micros": {
        "time.precision.mode": "microseconds",
        "binary.handling.mode": "base64-url-safe",
        "money.fraction.digits": "3",
        "skipped.operations": "u,t",
    },
    "nanos": {
        "time.precision.mode": "nanoseconds",
        "tombstones.on.delete": "false",
        "message.prefix.exclude.list": "fir.*",
    },
    "time in micros": {"time.precision.mode": "adaptive_time_microseconds", "skipped.operations": "c"},
}
"""Ways to ask the connector."""


@dataclass(frozen=True)
class PeerRun:
    """A stopped server's files and the connector's word on them.

    Attributes:
        backup: a base backup from before the workload.
        wal: the server's ``pg_wal``.
        events: the connector's, a line each, by way.
    """

    backup: Path
    wal: Path
    events: Mapping[str, list[str]]


def run_peer(
    programs: ServerPrograms, setup: Iterable[str], work: Iterable[str], ways: Iterable[str], directory: Path
) -> PeerRun:
    """Run a workload on a server and the connector after it.

    Args:
        programs: of the server.
        setup: statements of before the backup.
        work: statements that are decoded, of one session.
        ways: how the connector is asked.
        directory: where files are left.
    """
    ways = list(ways)
    with EmbeddedPostgres(programs, autovacuum=False, loopback=True) as server:
        with server.connect() as connection:
            for statement in (*setup, f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES"):
                connection.execute(statement.encode())
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            for way in ways:
                connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [_slot(way)])
            for statement in work:
                connection.execute(statement.encode())
            connection.execute("SELECT pg_logical_emit_message(false, %s, '')", [END])
        events = _print_events(server, ways, directory)
        server.stop()
        shutil.copytree(server.wal_directory, directory / "pg_wal")
    return PeerRun(backup, directory / "pg_wal", events)


def run_tables(major: int, work: Iterable[str], directory: Path) -> PeerRun:
    """Run DDL on a server; what the connector reads of its tables, as schema changes of Debezium's other connectors.

    Args:
        major: PostgreSQL's major version.
        work: statements, of one session, after the backup.
        directory: where files are left.
    """
    with EmbeddedPostgres(find_programs(major), autovacuum=False, loopback=True) as server:
        server.stop()
        backup = server.copy_data_directory(directory / "backup")
        server.start()
        with server.connect() as connection:
            for statement in work:
                connection.execute(statement.encode())
        file = _properties_file(server, "plain", directory)
        _run_java("PrintTables.java", [file])
        server.stop()
        shutil.copytree(server.wal_directory, directory / "pg_wal")
    return PeerRun(backup, directory / "pg_wal", {"tables": file.with_suffix(".json").read_text().splitlines()})


def values_of_classes(lines: Iterable[str], directory: Path) -> list[str]:
    """Have the connector's classes convert values: schema and payload of each.

    Args:
        lines: a type, a tab, and the server's text each.
        directory: where files are left.
    """
    asked, answers = directory / "values.txt", directory / "values.json"
    asked.write_text("".join(f"{line}\n" for line in lines))
    _run_java("PrintValues.java", [asked, answers])
    return answers.read_text().splitlines()


def statements(name: str) -> list[str]:
    """List the statements of a file of SQL beside this one."""
    return [part for part in (HERE / name).read_text().split(";\n") if part.strip()]


def _slot(way: str) -> str:
    return way.replace(" ", "_")


def _print_events(server: EmbeddedPostgres, ways: Iterable[str], directory: Path) -> dict[str, list[str]]:
    files = {way: _properties_file(server, way, directory) for way in ways}
    _run_java("PrintEvents.java", files.values())
    return {way: file.with_suffix(".json").read_text().splitlines() for way, file in files.items()}


def _run_java(program: str, files: Iterable[Path]) -> None:
    java = ["java", "-Xmx512m", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command = [*java, "-cp", f"{JARS}/*", str(HERE / program), *map(str, files)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert run.returncode == 0, run.stderr[-4000:]


def _properties_file(server: EmbeddedPostgres, way: str, directory: Path) -> Path:
    file = directory / f"{_slot(way)}.properties"
    properties = {
        "name": "peer",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": DATABASE,
        "topic.prefix": PREFIX,
        "plugin.name": "pgoutput",
        "slot.name": _slot(way),
        "publication.name": PUBLICATION,
        "publication.autocreate.mode": "disabled",
        "snapshot.mode": "no_data",
        "errors.max.retries": "0",
        "print.to": str(file.with_suffix(".json")),
        "print.end": END,
        **NULLS,
        **WAYS[way],
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return file
