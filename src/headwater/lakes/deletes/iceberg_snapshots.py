"""Snapshots of Iceberg that take files away or delete rows beside them: which manifests they have (spec, "Manifests").

``pyiceberg`` (0.12.0) takes files of rows away, but has no manifests of delete files. A snapshot of its kind
``overwrite`` leaves one more manifest than the last one for ever. So the manifests are chosen and written here, with
its writers: what a commit changes of a kind of files goes to one manifest, together with what was in those that it
changes. Smaller ones go into it, too, so that there are few, and an entry is not written with each commit.

Files that a manifest has keep their sequence numbers. Those that come have the snapshot's, which Iceberg gives them: so
a delete file is of rows that were there before, and of its own snapshot's.

In format 3 a list of manifests also numbers rows, and deletes are deletion vectors, several of them in one file
(:class:`NumberedFiles`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.exceptions import ValidationException
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest,
)
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.table.update.snapshot import _SnapshotProducer
from pyiceberg.typedef import EMPTY_DICT

from headwater.base.overrides import override
from headwater.lakes.iceberg.format_version import next_row_id
from headwater.lakes.iceberg.numbered_manifests import (
    FileKey,
    NumberedListWriter,
    NumberedManifestWriter,
    detail,
    entries_of,
    is_vector,
    key_of,
    manifests_of,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile, ManifestWriter
    from pyiceberg.table import Transaction
    from pyiceberg.table.update import UpdatesAndRequirements

_Kind: TypeAlias = "tuple[ManifestContent, int]"
"""What files a manifest has, and how they are partitioned."""

_SIZE_OF_FILE = 5
"""The place of ``file_size_in_bytes`` among the fields of a file."""

_TIMES = 4
"""A manifest goes into one with a quarter as many entries, or more."""


class _DeletesWriter(ManifestWriterV2):
    """The writer of a manifest of delete files."""

    @override
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class ChangedFiles(_SnapshotProducer["ChangedFiles"]):
    """A snapshot that adds files and takes files away, of rows and of deletes; use it as pyiceberg's own.

    Args:
        transaction: whose snapshot it is; properties: of the snapshot.
    """

    def __init__(self, transaction: Transaction, properties: dict[str, str]) -> None:
        io = transaction._table.io
        super().__init__(Operation.OVERWRITE, transaction, io, snapshot_properties=properties)
        self._metadata = transaction.table_metadata  # which is made anew, with all snapshots, each time
        self._going: dict[FileKey, DataFile] = {}

    @override
    def delete_data_file(self, data_file: DataFile) -> ChangedFiles:
        self._going[key_of(data_file)] = data_file
        super().delete_data_file(data_file)
        return self

    @override
    def _manifests(self) -> list[ManifestFile]:
        entries: dict[_Kind, list[ManifestEntry]] = defaultdict(list)
        for file in self._added_data_files:
            entries[_kind(file)].append(self._added(file))
        stays = [manifest for manifest in self._before() if not self._takes(manifest, entries)]
        self._require_gone(entries)
        written: list[ManifestFile] = []
        for kind, changed in entries.items():
            alike = [manifest for manifest in stays if (manifest.content, manifest.partition_spec_id) == kind]
            smaller = list(_smaller(alike, len(changed)))
            stays = [manifest for manifest in stays if manifest not in smaller]
            there = [entry for manifest in smaller for entry in self.fetch_manifest_entry(manifest)]
            written.append(self._write(kind, [*changed, *map(_existing, there)]))
        return [*written, *stays]

    def _before(self) -> Iterator[ManifestFile]:
        """Yield manifests that the table has, but for those of files that are gone."""
        snapshot = self._metadata.snapshot_by_name(self._target_branch)
        for manifest in self._manifests_of(snapshot) if snapshot is not None else ():
            if manifest.has_added_files() or manifest.has_existing_files():
                yield manifest

    def _manifests_of(self, snapshot: Snapshot) -> list[ManifestFile]:
        return snapshot.manifests(self._io)

    def _goes(self, entry: ManifestEntry) -> bool:
        return key_of(entry.data_file) in self._going

    def _takes(self, manifest: ManifestFile, entries: dict[_Kind, list[ManifestEntry]]) -> bool:
        """Take the entries of a manifest of which files go; tells whether some do."""
        if not any(_kind(file)[0] == manifest.content for file in self._going.values()):
            return False
        there = self.fetch_manifest_entry(manifest)
        if not any(map(self._goes, there)):
            return False
        entries[manifest.content, manifest.partition_spec_id] += [
            self._gone(entry) if self._goes(entry) else _existing(entry) for entry in there
        ]
        return True

    def _require_gone(self, entries: dict[_Kind, list[ManifestEntry]]) -> None:
        """See that all files that go were there.

        Raises:
            ValidationException: some were not.
        """
        of_all = (entry for changed in entries.values() for entry in changed)
        gone = {key_of(entry.data_file) for entry in of_all if entry.status == ManifestEntryStatus.DELETED}
        lost = sorted(file.file_path for key, file in self._going.items() if key not in gone)
        if lost:
            raise ValidationException(f"files are not in the table any more: {', '.join(lost)}")

    def _write(self, kind: _Kind, entries: Sequence[ManifestEntry]) -> ManifestFile:
        with self._writer(kind) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _writer(self, kind: _Kind) -> ManifestWriter:
        content, spec, schema = kind[0], self._metadata.specs()[kind[1]], self._metadata.schema()
        output = self.new_manifest_output()
        if content == ManifestContent.DATA:
            version = self._metadata.format_version
            return write_manifest(version, spec, schema, output, self._snapshot_id, self._compression)
        return _DeletesWriter(spec, schema, output, self._snapshot_id, self._compression)

    def _added(self, file: DataFile) -> ManifestEntry:
        status = ManifestEntryStatus.ADDED
        return ManifestEntry.from_args(status=status, snapshot_id=self._snapshot_id, data_file=file)

    def _gone(self, entry: ManifestEntry) -> ManifestEntry:
        return _with_status(entry, ManifestEntryStatus.DELETED, self._snapshot_id)

    @override
    def _deleted_entries(self) -> list[ManifestEntry]:
        raise NotImplementedError("the manifests are chosen as a whole")

    @override
    def _existing_manifests(self) -> list[ManifestFile]:
        raise NotImplementedError("the manifests are chosen as a whole")


class NumberedFiles(ChangedFiles):
    """The same of a table of format 3; also of a snapshot that takes nothing away.

    Args:
        transaction, properties: see :class:`ChangedFiles`.
    """

    @override
    def _manifests_of(self, snapshot: Snapshot) -> list[ManifestFile]:
        return manifests_of(snapshot, self._io)

    @override
    def fetch_manifest_entry(self, manifest: ManifestFile, discard_deleted: bool = True) -> list[ManifestEntry]:
        return entries_of(manifest, self._io, discard_deleted=discard_deleted)

    @override
    def _writer(self, kind: _Kind) -> ManifestWriter:
        content, spec, schema = kind[0], self._metadata.specs()[kind[1]], self._metadata.schema()
        output = self.new_manifest_output()
        return NumberedManifestWriter(content, spec, schema, output, self._snapshot_id, self._compression)

    @override
    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        """Say what a snapshot changes; of a vector, its own bytes count."""
        specs, schema, collector = self._metadata.specs(), self._metadata.schema(), SnapshotSummaryCollector()
        going = list(self._going.values())
        for file in self._added_data_files:
            collector.add_file(_sized(file), schema, specs[file.spec_id])
        for file in going:
            collector.remove_file(_sized(file), schema, specs[file.spec_id])
        counts = collector.build()
        for what, files in (("added", self._added_data_files), ("removed", going)):
            _count_vectors(counts, what, sum(map(is_vector, files)))
        is_more = not going and all(file.content == DataFileContent.DATA for file in self._added_data_files)
        operation = Operation.APPEND if is_more else Operation.OVERWRITE
        before = self._metadata.snapshot_by_name(self._target_branch)
        return update_snapshot_summaries(
            Summary(operation, **counts, **snapshot_properties), None if before is None else before.summary
        )

    @override
    def _commit(self) -> UpdatesAndRequirements:
        manifests, summary = self._manifests(), self._summary(self.snapshot_properties)
        sequence, first = self._metadata.next_sequence_number(), next_row_id(self._metadata)
        name = f"snap-{self._snapshot_id}-0-{self.commit_uuid}.avro"
        path = self._transaction._table.location_provider().new_metadata_location(name)
        output, parent = self._io.new_output(path), self._parent_snapshot_id
        with NumberedListWriter(output, self._snapshot_id, parent, sequence, first, self._compression) as writer:
            writer.add_manifests(manifests)
        fields = {
            "snapshot_id": self._snapshot_id,
            "parent_snapshot_id": parent,
            "manifest_list": path,
            "sequence_number": sequence,
            "summary": summary,
            "schema_id": self._metadata.current_schema_id,
            "first_row_id": first,
            "added_rows": writer.next_row_id - first,
        }
        return self._taking(Snapshot.model_validate(fields))

    def _taking(self, snapshot: Snapshot) -> UpdatesAndRequirements:
        """Return what makes a snapshot the last one, if the one before still is."""
        branch, parent = str(self._target_branch), snapshot.parent_snapshot_id
        ids = {"snapshot_id": snapshot.snapshot_id, "parent_snapshot_id": parent}
        becomes = SetSnapshotRefUpdate.model_validate({**ids, "ref_name": branch, "type": SnapshotRefType.BRANCH})
        ref = self._metadata.refs.get(branch)
        still = AssertRefSnapshotId.model_validate(
            {"snapshot_id": None if ref is None else ref.snapshot_id, "ref": branch}
        )
        return (AddSnapshotUpdate(snapshot=snapshot), becomes), (still,)


def _sized(file: DataFile) -> DataFile:
    """Return a vector with its own size instead of its file's; another file as it is."""
    size = detail(file, "content_size_in_bytes")
    if size is None:
        return file
    made = DataFile(*[file[number] for number in range(len(file))])
    made[_SIZE_OF_FILE], made.spec_id = size, file.spec_id
    return made


def _count_vectors(counts: dict[str, str], what: str, vectors: int) -> None:
    """Count vectors apart from delete files in what a summary says."""
    if vectors:
        files = int(counts.pop(f"{what}-position-delete-files")) - vectors
        counts |= {f"{what}-dvs": str(vectors)} | ({f"{what}-position-delete-files": str(files)} if files else {})


def _kind(file: DataFile) -> _Kind:
    is_data = file.content == DataFileContent.DATA
    return (ManifestContent.DATA if is_data else ManifestContent.DELETES), file.spec_id


def _existing(entry: ManifestEntry) -> ManifestEntry:
    return _with_status(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id)


def _with_status(entry: ManifestEntry, status: ManifestEntryStatus, snapshot: int | None) -> ManifestEntry:
    """Return an entry of a file that was there, with the sequence numbers that it had."""
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _smaller(manifests: Sequence[ManifestFile], entries: int) -> Iterator[ManifestFile]:
    """Yield manifests that go into one that is written anew, with so many entries; the smallest first."""
    for manifest in sorted(manifests, key=_living):
        if _living(manifest) > _TIMES * entries:
            return
        entries += _living(manifest)
        yield manifest


def _living(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
