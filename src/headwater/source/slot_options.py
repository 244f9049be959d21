"""The options of a read of a server's slot: ``path`` is its address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import UsageError
from headwater.pipeline.slices.row_batches import RowForm
from headwater.plugins.table_patterns import TablePatterns
from headwater.remote_slots.server_tables import published_table
from headwater.remote_slots.slot_address import SlotAddress, is_server_address
from headwater.rows.columns.column_types import ERROR, ON_UNREPRESENTABLE
from headwater.rows.columns.table_columns import TypedTable
from headwater.source.options import parse_bytes, parse_choice, parse_switch

SLOT_OPTIONS = ("path", "tables", "exclude", "images", "onUnrepresentable", "maxBytesPerTrigger")

BATCH_BYTES = 64 << 20
"""Of a slot's stream that a micro-batch has, if no option says how many."""


@dataclass(frozen=True)
class SlotOptions:
    """The options of one read, checked.

    Attributes:
        address: the slot's.
        tables: which of the publications' tables; images: rows have images instead of a single table's own columns.
        on_unrepresentable: one of :data:`~headwater.rows.columns.column_types.ON_UNREPRESENTABLE`.
        max_bytes: bytes of the stream in a micro-batch; it ends with the transaction that goes beyond.
    """

    address: SlotAddress
    tables: TablePatterns
    images: bool = False
    on_unrepresentable: str = ERROR
    max_bytes: int = BATCH_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SlotOptions:
        """Read Spark's options.

        Raises:
            UsageError: an option is malformed, or a slot has no use for it.
        """
        given = {name.lower(): value for name, value in options.items()}
        known = {name.lower() for name in SLOT_OPTIONS}
        for name in given:
            if name not in known:
                raise UsageError(
                    f'option "{name}" is of reading WAL, not of a slot', hint=f"known: {', '.join(SLOT_OPTIONS)}"
                )
        return cls(
            SlotAddress.parse(given["path"]),
            TablePatterns.parse(*([given[name]] if given.get(name) else [] for name in ("tables", "exclude"))),
            parse_switch(given, "images"),
            parse_choice(given, "onUnrepresentable", ON_UNREPRESENTABLE),
            parse_bytes(given, "maxBytesPerTrigger", BATCH_BYTES),
        )

    def form(self) -> RowForm:
        """Return what rows look like: a single table has the columns that it has now.

        Raises:
            CatalogError: there is no such table.
            ConnectionLostError: the server cannot be asked.
        """
        name = None if self.images else self.tables.single_name
        if name is None:
            return RowForm()
        return RowForm(TypedTable(published_table(self.address, name), self.on_unrepresentable))


def reads_slot(options: Mapping[str, str]) -> bool:
    """Tell whether a read is one of a slot."""
    path = next((value for name, value in options.items() if name.lower() == "path"), "")
    return is_server_address(path)
