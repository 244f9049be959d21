"""The options of the ``headwater`` data source, checked before anything is opened.

Spark compares names of options without regard to case, and gives all values as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.errors import UsageError
from headwater.pg.decimals import decimal
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import ON_LEVEL_GAP, DecodeRequest
from headwater.pipeline.requests.slot_request import agreed_request
from headwater.pipeline.requests.wal_places import STORAGE, source_of_options
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS
from headwater.plugins.table_patterns import TablePatterns
from headwater.rows.columns.column_types import (
    AS_STRING,
    AS_VARIANT,
    JSONB,
    ON_UNREPRESENTABLE,
    SPARK,
    SPARK_WITH_VARIANT,
    Target,
)
from headwater.rows.session import SERVER_VERSION
from headwater.slots.invalidation import check_valid
from headwater.slots.slot_directory import read_slot
from headwater.wal.segments.local_path import local_path

OPTIONS = (
    "path",
    "view",
    "catalog",
    "database",
    "user",
    "startingLsn",
    "endingLsn",
    "tables",
    "exclude",
    "publication",
    "publish",
    "plugin",
    "unknownTypes",
    "partitionBytes",
    "windowBytes",
    "onUnrepresentable",
    "jsonb",
    "onTableReplaced",
    "images",
    "pushFilters",
    "slot",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "timeline",
    "serverVersion",
    "onLevelGap",
    "fromReplicaLevel",
    "twoPhase",
    "ddl",
)
"""Options; ``plugin.NAME``, ``set.NAME`` and ``storage.NAME`` come on top."""

PARTITION_BYTES = 32 << 20

VIEW_CHANGES, VIEW_RECORDS = "changes", "records"

ERROR, SKIP, BY_NAME = "error", "skip", "byName"
ON_TABLE_REPLACED = (ERROR, SKIP, BY_NAME)
"""What is done with changes of another relation that bore a single table's name earlier."""

_NO_TABLES = (
    "use CREATE TEMPORARY VIEW name USING headwater OPTIONS (...): Spark reads a table of a Python data source "
)
_NO_TABLES += "without the options it was made with"

_DATA_LOSS = "nothing can be decoded behind WAL that is gone: begin with a newer base backup and a new checkpoint"


@dataclass(frozen=True)
class SourceOptions:
    """The options of one read, checked.

    Attributes:
        request: what to decode; its plugin is empty for rows of changes.
        publications: names.
        partition_bytes: bytes of WAL records per partition.
        on_unrepresentable: one of ON_UNREPRESENTABLE of :mod:`headwater.rows.columns.column_types`.
        on_table_replaced: one of :data:`ON_TABLE_REPLACED`.
        images: rows of a single table have its images too, instead of its own columns.
        push_filters: take filters that Spark hands over.
        slot: directory of the slot that a stream goes on from, None for none.
        max_bytes: bytes of WAL of a stream's batch, None for no bound.
        window_bytes: bytes of WAL that a read plans at a time.
        jsonb: what a single table's columns of jsonb are, one of :data:`~headwater.rows.columns.column_types.JSONB`.
    """

    request: DecodeRequest
    publications: tuple[str, ...]
    partition_bytes: int
    on_unrepresentable: str = ERROR
    on_table_replaced: str = ERROR
    images: bool = False
    push_filters: bool = False
    slot: str | None = None
    max_bytes: int | None = None
    window_bytes: int = DEFAULT_BOUNDS.wal_bytes
    jsonb: str = AS_STRING

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read Spark's options.

        Raises:
            UsageError: an option is unknown, missing or malformed.
        """
        given = {name.lower(): value for name, value in options.items()}
        if "provider" in given:  # what Spark passes of a CREATE TABLE
            raise UsageError("CREATE TABLE ... USING headwater is not supported", hint=_NO_TABLES)
        known = {name.lower() for name in OPTIONS}
        for name in given:
            if name not in known and not name.startswith(("plugin.", "set.", STORAGE)):
                raise UsageError(
                    f'unknown option "{name}" of the headwater data source',
                    hint=f"known: {', '.join(OPTIONS)}, plugin.*, set.*, {STORAGE}*",
                )
        slot = given.get("slot")
        if slot is not None and parse_switch(given, "fromReplicaLevel"):
            raise UsageError("fromReplicaLevel cannot be given with slot", hint="no slot is made for it")
        if slot is not None and "twophase" in given:
            raise UsageError("twoPhase cannot be given with slot", hint="the slot has it since it was created")
        if slot is not None and "publish" in given:
            raise UsageError("publish cannot be given with slot", hint="no slot is made for it")
        if slot is not None and parse_switch(given, "ddl"):
            raise UsageError("ddl cannot be given with slot", hint="no slot follows definitions")
        publications = _list(given.get("publication", ""))
        request = _request(given, publications) if slot is None else _slot_request(given, publications, slot)
        request = replace(request, on_level_gap=parse_choice(given, "onLevelGap", ON_LEVEL_GAP))
        if given.get("failondataloss", "true").lower() != "true":
            raise UsageError('invalid failOnDataLoss, expected "true"', hint=_DATA_LOSS)
        parsed = cls(
            request,
            tuple(publications),
            parse_partition_bytes(given),
            parse_choice(given, "onUnrepresentable", ON_UNREPRESENTABLE),
            parse_choice(given, "onTableReplaced", ON_TABLE_REPLACED),
            parse_switch(given, "images"),
            parse_switch(given, "pushFilters"),
            None if slot is None else local_path(slot),
            parse_bytes(given, "maxBytesPerTrigger") if "maxbytespertrigger" in given else None,
            parse_bytes(given, "windowBytes", DEFAULT_BOUNDS.wal_bytes),
            parse_choice(given, "jsonb", JSONB),
        )
        if request.publish and parsed.single_table is not None and not request.plugin:
            raise UsageError(
                "publish cannot be given with a single table, whose own columns rows would have",
                hint="leave tables out, as publish names tables, or set images to true",
            )
        parsed._check_ddl()
        return parsed

    def _check_ddl(self) -> None:
        """Check that DDL can be among the rows, if it is asked for.

        Raises:
            UsageError: it cannot.
        """
        if not self.request.with_ddl:
            return
        if self.request.plugin:
            raise UsageError("ddl is an option of rows, not of a plugin's messages", hint="leave one of them out")
        if self.push_filters:
            raise UsageError("ddl is no option of a read with pushFilters", hint="leave one of them out")
        if self.single_table is not None:
            raise UsageError("a single table's own columns have no place for DDL", hint="set images to true")

    def check_batch(self) -> None:
        """Check that the options make sense for a read that ends.

        Raises:
            UsageError: one is for streams.
        """
        for option, value in (("slot", self.slot), ("maxBytesPerTrigger", self.max_bytes)):
            if value is not None:
                raise UsageError(f"{option} is an option of streams", hint="use spark.readStream, or leave it out")

    def check_stream(self) -> None:
        """Check that the options make sense for a read that goes on.

        Raises:
            UsageError: one is for reads that end.
        """
        if self.request.end is not None:
            raise UsageError("endingLsn is no option of streams", hint="use spark.read, or leave it out")
        if self.window_bytes != DEFAULT_BOUNDS.wal_bytes:
            raise UsageError("windowBytes is no option of streams", hint="bound their batches with maxBytesPerTrigger")
        if self.push_filters:
            raise UsageError("pushFilters is no option of streams", hint="Spark hands a stream no filters")

    @property
    def types(self) -> Target:
        """The types that a single table's columns can have."""
        return SPARK_WITH_VARIANT if self.jsonb == AS_VARIANT else SPARK

    @property
    def single_table(self) -> str | None:
        """The table, if just one is named, whose own columns rows have."""
        return None if self.images else self.request.tables.single_name


def _request(given: Mapping[str, str], publications: list[str]) -> DecodeRequest:
    for name in ("path", "catalog"):
        if not given.get(name):
            hint = None if given else f"if this is a table made with CREATE TABLE, {_NO_TABLES}"
            raise UsageError(f'the headwater data source needs the option "{name}"', hint=hint)
    return DecodeRequest(
        wal=source_of_options(given),
        catalog=given["catalog"],
        database=given.get("database"),
        user=given.get("user"),
        from_replica_level=parse_switch(given, "fromReplicaLevel"),
        two_phase=parse_switch(given, "twoPhase"),
        with_ddl=parse_switch(given, "ddl") if "ddl" in given else _has_place_for_ddl(given),
        ddl_where_possible="ddl" not in given,
        plugin=given.get("plugin", ""),
        options=_plugin_options(given, publications),
        start=_lsn(given.get("startinglsn")),
        end=_lsn(given.get("endinglsn")),
        settings=_settings(given),
        unknown_types=given.get("unknowntypes", "error"),
        tables=_tables(given),
        publish=tuple(text.strip() for text in given.get("publish", "").split(";") if text.strip()),
    )


def _settings(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the session settings, of which one has an option of its own that goes before."""
    named = tuple((name[4:], value) for name, value in given.items() if name.startswith("set."))
    version = given.get("serverversion")
    return named if version is None else (*named, (SERVER_VERSION, version))


def _has_place_for_ddl(given: Mapping[str, str]) -> bool:
    """Tell whether DDL can be reported without being asked for: among rows of any tables, at commits, all of them."""
    is_of_one = _tables(given).single_name is not None and not parse_switch(given, "images")
    others = parse_switch(given, "pushFilters") or parse_switch(given, "twoPhase")
    return not (given.get("plugin") or is_of_one or others)


def _tables(given: Mapping[str, str]) -> TablePatterns:
    return TablePatterns.parse(*([given[name]] if given.get(name) else [] for name in ("tables", "exclude")))


def _slot_request(given: Mapping[str, str], publications: list[str], slot: str) -> DecodeRequest:
    path = Path(local_path(slot))
    check_valid(path)
    stands = read_slot(path)
    options = dict(_plugin_options({"plugin": stands.request.plugin, **given}, publications))
    if "plugin.proto_version" not in given:
        options.pop("proto_version", None)
    return agreed_request(stands, slot, given, options)


def view_of(options: Mapping[str, str]) -> str:
    """Return the view that rows are of: changes, or the records of the WAL (:mod:`headwater.source.record_view`).

    Raises:
        UsageError: it is neither.
    """
    given = {name.lower(): value for name, value in options.items()}
    return parse_choice(given, "view", (VIEW_CHANGES, VIEW_RECORDS))


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _lsn(text: str | None) -> int | None:
    return None if text is None else Lsn.parse(text)


def parse_choice(given: Mapping[str, str], option: str, choices: tuple[str, ...]) -> str:
    """Return the value of an option that takes one of some words, the first if it is not given."""
    value = given.get(option.lower(), choices[0])
    for choice in choices:
        if value.lower() == choice.lower():
            return choice
    raise UsageError(f'invalid {option} "{value}", expected {", ".join(choices[:-1])} or {choices[-1]}')


def parse_switch(given: Mapping[str, str], option: str) -> bool:
    return parse_choice(given, option, ("false", "true")) == "true"


def parse_partition_bytes(given: Mapping[str, str]) -> int:
    """Return the option ``partitionBytes``, of options by their names in lower case.

    Raises:
        UsageError: it is no number of bytes.
    """
    return parse_bytes(given, "partitionBytes", PARTITION_BYTES)


def parse_bytes(given: Mapping[str, str], option: str, default: int = 0) -> int:
    text = given.get(option.lower(), str(default))
    size = decimal(text) if text.isascii() and text.isdigit() else 0
    if size < 1:
        raise UsageError(f'invalid {option} "{text}", expected a number of bytes')
    return size


def _plugin_options(given: Mapping[str, str], publications: list[str]) -> tuple[tuple[str, str], ...]:
    """Return the ``plugin.NAME`` options; pgoutput gets its publications and protocol from ``publication``."""
    named = {name[7:]: value for name, value in given.items() if name.startswith("plugin.")}
    if given.get("plugin") == "pgoutput" and publications:
        quoted = ",".join('"' + name.replace('"', '""') + '"' for name in publications)
        named = {"proto_version": "1", "publication_names": quoted, **named}
    return tuple(named.items())
