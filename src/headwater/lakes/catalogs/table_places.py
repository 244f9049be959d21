"""Places of tables that a catalog chooses, and the credentials that it gives for them.

A catalog that gives credentials for a table's files (``s3.access-key-id``, ... beside the table) means these and no
others; they go with the table as it was loaded last. Where it gives none, the target's own options are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwater.errors import LakeError
from headwater.lakes.stores.library_options import options_of_iceberg
from headwater.lakes.stores.places import StorePath, Where, is_address, place_of

OF_TARGET, OF_CATALOG = "target", "catalog"
TABLE_LOCATIONS = (OF_TARGET, OF_CATALOG)
"""Where files of Iceberg's tables lie: in the target, or where the catalog says."""


def place_of_table(location: str, properties: Mapping[str, Any], target: Where) -> Where:
    """Return where a table lies, as its catalog says.

    Args:
        location: the table's; properties: of its files; target: where the target is.

    Raises:
        LakeError: it is in a store and the target in a directory, or the other way round.
    """
    is_local = location.startswith("file:") or not is_address(location)
    place = Path(_path(location)) if is_local else place_of(location, options_of_iceberg(properties))
    if isinstance(place, StorePath) != isinstance(target, StorePath):
        raise LakeError(
            f"the catalog lets the table lie in {location}",
            file=str(target),
            hint="land to a place of the same kind (--to), or leave out --table-location catalog",
        )
    if isinstance(place, StorePath) and isinstance(target, StorePath):
        store = replace(place.store, options=place.store.options or target.store.options, guard=target.store.guard)
        return StorePath(store, place.key)
    return place


def _path(location: str) -> str:
    return "/" + location.removeprefix("file:").lstrip("/")
