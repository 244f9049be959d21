"""Files of deletion vectors that no version of a table needs any more.

``deltalake`` (1.6.6) knows no such files: its vacuum lets them be, its full one takes all of them for nobody's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from headwater.errors import LakeError
from headwater.lakes.deletes.deletion_vectors import DeletionVector
from headwater.lakes.deletes.delta_log import vectors_in_log


def unused_vectors(place: Path, versions: Iterable[int], older_than: datetime) -> Iterator[Path]:
    """Yield files of vectors that neither some versions of a table name nor any since a time.

    Args:
        place: the table's directory.
        versions: that stay; one that the log has no more is passed over.
        older_than: what left the table later stays, too; with a time zone.

    Raises:
        LakeError: the log is damaged.
    """
    log = place / "_delta_log"
    there = list(place.rglob("deletion_vector_*.bin"))
    if not there:
        return
    named: list[Mapping[str, Any]] = list(_removed_since(log, older_than))
    for version in versions:
        if any(log.glob(f"{version:020d}.*")):
            named += vectors_in_log(log, version).values()
    needed = {DeletionVector.named(place, note).path for note in named}
    yield from (path for path in there if path not in needed)


def _removed_since(log: Path, since: datetime) -> Iterator[Mapping[str, Any]]:
    """Yield vectors that commits since a time have taken away."""
    for path in log.glob("*.json"):
        if not path.stem.isdecimal() or path.stat().st_mtime < since.timestamp():
            continue
        try:
            actions = [json.loads(line) for line in path.read_text().splitlines() if line]
        except ValueError as error:
            raise LakeError(f"damaged: {error}", file=str(path)) from None
        for action in actions:
            vector = action.get("remove", {}).get("deletionVector")
            if vector is not None:
                yield vector
