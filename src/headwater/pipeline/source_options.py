"""The options of the ``headwater`` data source: what a read is asked for, checked before anything is opened.

Spark compares names of options without regard to case, and gives all values as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import UsageError
from headwater.pg.lsn import Lsn
from headwater.pipeline.request import DecodeRequest

NAMES = (
    "path",
    "catalog",
    "database",
    "startingLsn",
    "endingLsn",
    "tables",
    "publication",
    "plugin",
    "unknownTypes",
    "partitionBytes",
)
OPTIONS = frozenset(name.lower() for name in NAMES)
"""Options, which Spark compares without regard to case; ``plugin.NAME`` and ``set.NAME`` come on top."""

PARTITION_BYTES = 32 << 20


@dataclass(frozen=True)
class SourceOptions:
    """The options of one read, checked.

    Attributes:
        request: what to decode; its plugin is empty for rows of changes.
        tables: patterns of ``schema.table``.
        publications: names.
        partition_bytes: bytes of WAL records per partition.
    """

    request: DecodeRequest
    tables: tuple[str, ...]
    publications: tuple[str, ...]
    partition_bytes: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read Spark's options.

        Raises:
            UsageError: an option is unknown, missing or malformed.
        """
        given = {name.lower(): value for name, value in options.items()}
        for name in given:
            if name not in OPTIONS and not name.startswith(("plugin.", "set.")):
                raise UsageError(
                    f'unknown option "{name}" of the headwater data source',
                    hint=f"known: {', '.join(NAMES)}, plugin.*, set.*",
                )
        for name in ("path", "catalog"):
            if not given.get(name):
                raise UsageError(f'the headwater data source needs the option "{name}"')
        publications = _list(given.get("publication", ""))
        request = DecodeRequest(
            wal=given["path"],
            catalog=given["catalog"],
            database=given.get("database"),
            plugin=given.get("plugin", ""),
            options=_plugin_options(given, publications),
            start=_lsn(given.get("startinglsn")),
            end=_lsn(given.get("endinglsn")),
            settings=tuple((name[4:], value) for name, value in given.items() if name.startswith("set.")),
            unknown_types=given.get("unknowntypes", "error"),
        )
        size = _partition_bytes(given.get("partitionbytes", str(PARTITION_BYTES)))
        return cls(request, tuple(_list(given.get("tables", ""))), tuple(publications), size)

    @property
    def single_table(self) -> str | None:
        """The table, if there is just one and no pattern in its name."""
        if len(self.tables) == 1 and not set("*?[") & set(self.tables[0]):
            return self.tables[0]
        return None


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _lsn(text: str | None) -> int | None:
    return None if text is None else Lsn.parse(text)


def _partition_bytes(text: str) -> int:
    size = int(text) if text.isascii() and text.isdigit() else 0
    if size < 1:
        raise UsageError(f'invalid partitionBytes "{text}", expected a number of bytes')
    return size


def _plugin_options(given: Mapping[str, str], publications: list[str]) -> tuple[tuple[str, str], ...]:
    """``plugin.NAME`` options; pgoutput gets its publications and protocol from ``publication``."""
    named = {name[7:]: value for name, value in given.items() if name.startswith("plugin.")}
    if given.get("plugin") == "pgoutput" and publications:
        quoted = ",".join('"' + name.replace('"', '""') + '"' for name in publications)
        named = {"proto_version": "1", "publication_names": quoted, **named}
    return tuple(named.items())
