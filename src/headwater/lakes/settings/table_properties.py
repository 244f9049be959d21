"""Properties of tables that settings may give: those of which nothing in a table's files depends.

Others would ask who writes for something: another format, columns that are mapped, files of changes. They are refused;
so are properties that are not Delta's own, which deltalake (1.6.6) does not take.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.errors import UsageError

_OF_DELTA = (
    "delta.autoOptimize",
    "delta.checkpointInterval",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.logRetentionDuration",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
)
_NOT_OF_ICEBERG = ("headwater.", "commit.manifest-merge.enabled", "schema.name-mapping.default")


_FORMAT_VERSIONS = ("2", "3")


def require_properties(properties: Mapping[str, str], format: str) -> None:
    """See that tables of a format can have properties.

    Args:
        properties: their values, by names; format: of the tables.

    Raises:
        UsageError: they have none, or not this one.
    """
    for name, value in properties.items():
        if format not in ("delta", "iceberg"):
            raise UsageError(f'tables of {format} have no properties, and "{name}" is set', hint="leave it out")
        is_known = name.startswith(_OF_DELTA) if format == "delta" else not name.startswith(_NOT_OF_ICEBERG)
        if not is_known:
            raise UsageError(
                f'the property "{name}" would ask more of who writes the table than is done here',
                hint=f"{_hint(format)}; or set it with another program, once nothing lands there any more",
            )
        if name == "format-version" and value not in _FORMAT_VERSIONS:
            raise UsageError(f'there is no format-version "{value}"', hint=f"expected {' or '.join(_FORMAT_VERSIONS)}")


def _hint(format: str) -> str:
    return f"of Delta's there are {', '.join(_OF_DELTA)}" if format == "delta" else "leave it out"
