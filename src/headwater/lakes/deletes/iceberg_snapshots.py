"""Snapshots of Iceberg that take files away or delete rows beside them: which manifests they have (spec, "Manifests").

``pyiceberg`` (0.12.0) takes files of rows away, but has no manifests of delete files. A snapshot of its kind
``overwrite`` leaves one more manifest than the last one for ever. So the manifests are chosen and written here, with
its writers: what a commit changes of a kind of files goes to one manifest, together with what was in those that it
changes. Smaller ones go into it, too, so that there are few, and an entry is not written with each commit.

Files that a manifest has keep their sequence numbers. Those that come have the snapshot's, which Iceberg gives them: so
a delete file is of rows that were there before, and of its own snapshot's.

Known gaps: tables of format 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.exceptions import ValidationException
from pyiceberg.manifest import (
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest,
)
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _SnapshotProducer

from headwater.base.overrides import override

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile, ManifestWriter
    from pyiceberg.table import Transaction

_Kind: TypeAlias = "tuple[ManifestContent, int]"
"""What files a manifest has, and how they are partitioned."""

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
        for manifest in snapshot.manifests(self._io) if snapshot is not None else ():
            if manifest.has_added_files() or manifest.has_existing_files():
                yield manifest

    def _takes(self, manifest: ManifestFile, entries: dict[_Kind, list[ManifestEntry]]) -> bool:
        """Take the entries of a manifest of which files go; tells whether some do."""
        if not any(_kind(file)[0] == manifest.content for file in self._deleted_data_files):
            return False
        there = self.fetch_manifest_entry(manifest)
        if not any(entry.data_file in self._deleted_data_files for entry in there):
            return False
        entries[manifest.content, manifest.partition_spec_id] += [
            self._gone(entry) if entry.data_file in self._deleted_data_files else _existing(entry) for entry in there
        ]
        return True

    def _require_gone(self, entries: dict[_Kind, list[ManifestEntry]]) -> None:
        """See that all files that go were there.

        Raises:
            ValidationException: some were not.
        """
        of_all = (entry for changed in entries.values() for entry in changed)
        gone = {entry.data_file.file_path for entry in of_all if entry.status == ManifestEntryStatus.DELETED}
        lost = sorted(file.file_path for file in self._deleted_data_files if file.file_path not in gone)
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
