"""Manifests of format 3 and lists of them, read and written with the fields that ``pyiceberg`` (0.12.0) leaves out.

Rows have numbers there (spec, "Row Lineage"): a file of rows has the number of its first one (``first_row_id``). A file
that comes has none; it inherits it from its manifest, which is given one when a list first names it. Files that a
manifest takes over have their numbers in it. A deletion vector is told by the file that it lies in and where it begins
there, as several lie in one.

These are pyiceberg's own readers and writers, with its schemas of format 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriterV2,
    PartitionFieldSummary,
    _inherit_from_manifest,
)

from headwater.base.overrides import override
from headwater.lakes.iceberg.format_version import THIRD

if TYPE_CHECKING:
    from pyiceberg.avro.codecs import AvroCompressionCodec
    from pyiceberg.io import FileIO, OutputFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import TableVersion

FileKey = tuple[str, int | None]
"""What no other file of a table has: the path, and of a deletion vector where it begins."""

_OF_FILE = {field.name: number for number, field in enumerate(DATA_FILE_TYPE[THIRD].fields)}
_OF_MANIFEST = {field.name: number for number, field in enumerate(MANIFEST_LIST_FILE_SCHEMAS[THIRD].fields)}
_FIRST_ROW_ID = "first_row_id"


def detail(file: DataFile, name: str) -> Any:
    """Return a field of a file that format 3 has added; None where it has none."""
    return file[_OF_FILE[name]] if len(file) > _OF_FILE[name] else None


def key_of(file: DataFile) -> FileKey:
    """Return what a file is told from others by."""
    return file.file_path, detail(file, "content_offset")


def is_vector(file: DataFile) -> bool:
    """Tell whether a delete file is a deletion vector."""
    return file.content == DataFileContent.POSITION_DELETES and file.file_format == FileFormat.PUFFIN


def manifests_of(snapshot: Snapshot, io: FileIO) -> list[ManifestFile]:
    """Read the manifests of a snapshot, with the numbers of their first rows."""
    with AvroFile[ManifestFile](
        io.new_input(snapshot.manifest_list),
        MANIFEST_LIST_FILE_SCHEMAS[THIRD],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return list(reader)


def entries_of(manifest: ManifestFile, io: FileIO, *, discard_deleted: bool = True) -> list[ManifestEntry]:
    """Read the entries of a manifest, with what they inherit from it.

    Args:
        manifest: it, of :func:`manifests_of`; io: the files.
        discard_deleted: leave out those of files that are gone.
    """
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[THIRD],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        entries = [_inherit_from_manifest(entry, manifest) for entry in reader]
    living = [entry for entry in entries if entry.status != ManifestEntryStatus.DELETED]
    _number(living, manifest[_OF_MANIFEST[_FIRST_ROW_ID]])
    return living if discard_deleted else entries


def _number(entries: list[ManifestEntry], number: int | None) -> None:
    """Give files of rows the numbers that they inherit; of a manifest without one, none."""
    for entry in entries:
        file = entry.data_file
        if number is None:
            file[_OF_FILE[_FIRST_ROW_ID]] = None
        elif detail(file, _FIRST_ROW_ID) is None:
            file[_OF_FILE[_FIRST_ROW_ID]] = number
            number += file.record_count


class NumberedManifestWriter(ManifestWriterV2):
    """The writer of a manifest of format 3.

    Args:
        content: what files it has; spec, schema: the table's.
        output: the file; snapshot: the id of that which it is made for; compression: of Avro.
    """

    def __init__(
        self,
        content: ManifestContent,
        spec: PartitionSpec,
        schema: Schema,
        output: OutputFile,
        snapshot: int,
        compression: AvroCompressionCodec,
    ) -> None:
        super().__init__(spec, schema, output, snapshot, compression)
        self._content = content

    @override
    def content(self) -> ManifestContent:
        return self._content

    @property
    def version(self) -> TableVersion:
        return THIRD

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": self._content.name.lower()}

    @override
    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(THIRD)
        return AvroOutputFile[ManifestEntry](self._output_file, schema, "manifest_entry", metadata=self._meta)

    @override
    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        prepared = super().prepare_entry(entry)
        prepared.data_file = in_third(prepared.data_file)
        return prepared


def in_third(file: DataFile) -> DataFile:
    """Return a file with all fields of format 3; those that it has not are null."""
    if len(file) == len(_OF_FILE):
        return file
    made = DataFile(*_fields(file), *[None] * (len(_OF_FILE) - len(file)))
    made.spec_id = file.spec_id
    return made


def _fields(record: Any) -> Iterator[Any]:
    return (record[number] for number in range(len(record)))


class NumberedListWriter(ManifestListWriterV2):
    """The writer of a list of manifests of format 3.

    Args:
        output: the file; snapshot: the id of its own; parent: of the one before.
        sequence_number: of the snapshot; first_row_id: the number that its rows begin with; compression: of Avro.

    Attributes:
        next_row_id: the number that the rows of the next snapshot begin with.
    """

    def __init__(
        self,
        output: OutputFile,
        snapshot: int,
        parent: int | None,
        sequence_number: int,
        first_row_id: int,
        compression: AvroCompressionCodec,
    ) -> None:
        super().__init__(output, snapshot, parent, sequence_number, compression)
        self._meta |= {"format-version": str(THIRD), "first-row-id": str(first_row_id)}
        self.next_row_id = first_row_id

    @override
    def __enter__(self) -> NumberedListWriter:
        schema = MANIFEST_LIST_FILE_SCHEMAS[THIRD]
        self._writer = AvroOutputFile[ManifestFile](self._output_file, schema, "manifest_file", metadata=self._meta)
        self._writer.__enter__()
        return self

    @override
    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        """Give a manifest a number that has none yet: files that it has taken over may have none either."""
        lacking = [None] * (len(_OF_MANIFEST) - len(manifest_file))
        prepared = super().prepare_manifest(ManifestFile(*_fields(manifest_file), *lacking))
        place = _OF_MANIFEST[_FIRST_ROW_ID]
        if prepared.content == ManifestContent.DATA and prepared[place] is None:
            prepared[place] = self.next_row_id
            self.next_row_id += (prepared.added_rows_count or 0) + (prepared.existing_rows_count or 0)
        return prepared
