"""Files of deletion vectors that no version of a table needs any more.

``deltalake`` (1.6.6) knows no such files: its vacuum lets them be, its full one takes all of them for nobody's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from headwater.errors import LakeError
from headwater.lakes.deletes.deletion_vectors import DeletionVector
from headwater.lakes.deletes.delta_log import vectors_in_log
from headwater.lakes.stores.places import FileThere, Where, files_below, read_file

_VECTORS, _COMMIT = re.compile(r"deletion_vector_.*\.bin"), re.compile(r"\d+\.json")
"""Names of files of vectors, and of commits."""


def unused_vectors(place: Where, versions: Iterable[int], older_than: datetime) -> Iterator[FileThere]:
    """Yield files of vectors that neither some versions of a table name nor any since a time.

    Args:
        place: the table's directory, or its place in a store.
        versions: that stay; one that the log has no more is passed over.
        older_than: what left the table later stays, too; with a time zone.

    Raises:
        LakeError: the log is damaged; or the store does not answer.
    """
    files = list(files_below(place))
    there = [file for file in files if _VECTORS.fullmatch(file.name)]
    if not there:
        return
    log = place / "_delta_log"
    named: list[Mapping[str, Any]] = list(_removed_since(log, files, older_than))
    logged = {file.name.partition(".")[0] for file in files if file.path == f"{log}/{file.name}"}
    for version in versions:
        if f"{version:020d}" in logged:
            named += vectors_in_log(log, version).values()
    needed = {DeletionVector.named(place, note).path for note in named}
    yield from (file for file in there if file.path not in needed)


def _removed_since(log: Where, files: Iterable[FileThere], since: datetime) -> Iterator[Mapping[str, Any]]:
    """Yield vectors that commits since a time have taken away."""
    for file in files:
        if file.path != f"{log}/{file.name}" or not _COMMIT.fullmatch(file.name) or file.time < since.timestamp():
            continue
        try:
            actions = [json.loads(line) for line in (read_file(log / file.name) or b"").splitlines() if line]
        except ValueError as error:
            raise LakeError(f"damaged: {error}", file=file.path) from None
        for action in actions:
            vector = action.get("remove", {}).get("deletionVector")
            if vector is not None:
                yield vector
