"""The value that rows from before a column was added have in it, typed as the column is.

In: the datum that ``pg_attribute.attmissingval`` holds. The server, and the kernels, put it into rows that are too
short; whoever keeps rows needs it once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headwater.catalog.relation import Column
from headwater.errors import DecodingError
from headwater.option_names import option
from headwater.rows.columns._columns import VALUE, Stored
from headwater.rows.columns.column_types import NULL
from headwater.rows.columns.columns import Asked, Values, arrow_array
from headwater.rows.columns.table_columns import TypedTable
from headwater.rows.missing_values import joined, missing_payload
from headwater.rows.session import SessionSettings
from headwater.rows.text_tables import base_type


def missing_value(column: Column, wanted: Column, table: TypedTable, session: SessionSettings) -> pa.Array[Any]:
    """Make an array of the one value: pyarrow (26) pickles no scalar that has UUIDs in it.

    Args:
        column: as it was when it was added, with the value.
        wanted: as it is now; table: the table that it is a column of.
        session: settings that text is printed under.

    Raises:
        DecodingError: the column has another type now, or the value does not fit it.
        CatalogError: the datum is malformed.
    """
    name = f'column "{wanted.name}" of table "{table.schema.namespace}.{table.schema.name}"'
    assert column.type is not None
    assert wanted.type is not None
    if base_type(column.type).oid != base_type(wanted.type).oid:
        raise DecodingError(
            f"{name} was added with a default and got another type in one window",
            hint=f"end the window between both with {option('end')}, and go on from there",
        )
    payload = missing_payload(column, name) or b""
    length = np.array([len(payload)], np.int32)
    stored = Stored(np.array([VALUE], np.uint8), np.zeros(1, np.int64), length, joined([payload]), joined([b""]))
    asked = Asked(session, table.on_unrepresentable == NULL, lambda _row: name, lambda _row: 0)
    values = arrow_array(table.type_in(wanted, wanted), Values(stored, np.zeros(1, np.int64)), asked)
    return table.masked(wanted, values)
