"""The format that an Iceberg table has, and metadata of format 3, which ``pyiceberg`` (0.12.0) reads only.

A table is made in format 3, or becomes one of format 3, by an update of the kind that pyiceberg's own updates are
(:class:`UpgradeToThird`): to a REST catalog it is sent as theirs. A catalog whose metadata files are written here
writes them by :func:`write_metadata`, as it is told with :func:`let_write_third`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.update import UpgradeFormatVersionUpdate, _apply_table_update, _TableMetadataUpdateContext
from pyiceberg.typedef import IcebergBaseModel

from headwater.base.overrides import override
from headwater.errors import LakeError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table, Transaction

FORMAT_VERSION = "format-version"
SECOND: Final = 2
THIRD: Final = 3
_ENCRYPTED = "encryption.key-id"


class UpgradeToThird(UpgradeFormatVersionUpdate):
    """An update that makes a table one of format 3; its rows are numbered from the next snapshot on."""

    format_version: int = Field(alias="format-version", default=THIRD)


@_apply_table_update.register(UpgradeToThird)
def _upgraded(
    update: UpgradeToThird, base_metadata: TableMetadata, context: _TableMetadataUpdateContext
) -> TableMetadata:
    if isinstance(base_metadata, TableMetadataV3) and base_metadata.next_row_id is not None:
        return base_metadata
    context.add_update(update)
    return TableMetadataV3.model_construct(**{**dict(base_metadata), "format_version": THIRD, "next_row_id": 0})


class _WrittenMetadata(TableMetadataV3):
    """Metadata of format 3 that is written as that of the formats before is."""

    @override
    def model_dump_json(self, *args: Any, **kwargs: Any) -> str:
        return IcebergBaseModel.model_dump_json(self, *args, **kwargs)


def write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
    """Write a metadata file, in any format.

    Args:
        metadata: what it has; io: the files; metadata_path: where.
    """
    if isinstance(metadata, TableMetadataV3):
        metadata = _WrittenMetadata.model_construct(**{**dict(metadata), "next_row_id": next_row_id(metadata)})
    ToOutputFile.table_metadata(metadata, io.new_output(metadata_path))


def let_write_third(catalog: Catalog) -> None:
    """Let a catalog, if it writes metadata files itself, write those of format 3, too."""
    if isinstance(catalog, MetastoreCatalog):
        catalog._write_metadata = write_metadata  # type: ignore[method-assign]


def next_row_id(metadata: TableMetadata) -> int:
    """Return the number of the next row of a table of format 3.

    Raises:
        ValueError: the metadata does not say it.
    """
    number = getattr(metadata, "next_row_id", None)
    if number is None and metadata.snapshots:
        raise ValueError("metadata of format 3 without next-row-id")
    return int(number or 0)


def wanted_version(properties: Mapping[str, str], metadata: TableMetadata | None) -> int:
    """Tell which format a table is to have.

    Args:
        properties: that are wanted of it; metadata: as it is; None for a new table.

    Raises:
        LakeError: it has a higher one.
    """
    known = SECOND if metadata is None else metadata.format_version
    wanted = int(properties.get(FORMAT_VERSION, known))
    if metadata is not None and wanted < known:
        raise LakeError(
            f"the table is of format {known}, and {FORMAT_VERSION} = {wanted} is wanted",
            hint=f"a table does not go back: set {known}, or land to another place",
        )
    return wanted


def begin_in_third(transaction: Transaction) -> None:
    """Let a transaction make its new table in format 3, if it is to be, where pyiceberg's own update is refused."""
    transaction._updates = tuple(_to_third(update) for update in transaction._updates)


def _to_third(update: Any) -> Any:
    is_of_third = isinstance(update, UpgradeFormatVersionUpdate) and update.format_version == THIRD
    return UpgradeToThird() if is_of_third else update


def upgrade(transaction: Transaction) -> None:
    """Let a transaction make a table one of format 3; for one that is, it does nothing."""
    if transaction.table_metadata.format_version < THIRD:
        transaction._apply((UpgradeToThird(),))


def require_deletes(table: Table, place: object) -> None:
    """See that rows of a table can be deleted beside files.

    Args:
        table: it; place: what errors name.

    Raises:
        LakeError: they cannot.
    """
    version = table.metadata.format_version
    if version not in (SECOND, THIRD):
        raise LakeError(
            f"a table of format {version}: rows are deleted beside files of formats {SECOND} and {THIRD}",
            file=str(place),
            hint="--write-mode copy-on-write, or land to another place",
        )


def require_plain(table: Table, place: object) -> None:
    """See that a table is not encrypted: pyiceberg would drop what its metadata says of keys.

    Args:
        table: it; place: what errors name.

    Raises:
        LakeError: it is.
    """
    if _ENCRYPTED in table.properties:
        raise LakeError("an encrypted table", file=str(place), hint="land to another place")
