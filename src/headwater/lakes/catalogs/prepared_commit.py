"""A commit to an Iceberg table, but for making it.

Of pyiceberg's API this takes one thing that has no public name: what a transaction has gathered
(``Transaction._updates``, ``_requirements``), as its own commit is of one table and tries again beside another writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.update import TableRequirement, TableUpdate


@dataclass(frozen=True)
class PreparedCommit:
    """A table's commit, whose files and manifests are written.

    Attributes:
        table: as it is known here; requirements: what must be so still; updates: what is done then.
    """

    table: Table
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]

    @classmethod
    def of(cls, transaction: Transaction) -> PreparedCommit:
        """Take what a transaction has gathered."""
        from pyiceberg.table import CreateTableTransaction
        from pyiceberg.table.update import AssertCreate, AssertTableUUID

        table = transaction._table
        if isinstance(transaction, CreateTableTransaction):
            return cls(table, (AssertCreate(),), transaction._updates)
        same = AssertTableUUID(uuid=table.metadata.table_uuid)
        return cls(table, (*transaction._requirements, same), transaction._updates)

    def is_made(self, catalog: Catalog) -> bool:
        """Look in the catalog whether the table has the snapshot of this commit: its id is no other's."""
        from pyiceberg.exceptions import NoSuchTableError
        from pyiceberg.table.update import AddSnapshotUpdate

        made = [update.snapshot.snapshot_id for update in self.updates if isinstance(update, AddSnapshotUpdate)]
        try:
            table = catalog.load_table(self.table.name())
        except NoSuchTableError:
            return False
        return bool(made) and all(table.snapshot_by_id(number) is not None for number in made)
