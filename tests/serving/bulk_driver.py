"""``headwater serve`` whose engine decodes for who is behind by little, in short stretches; it may fail on the way."""

from __future__ import annotations

import sys

from headwater.cli import main
from headwater.cli.shared_flags import EngineFlags
from headwater.errors import CatalogError
from headwater.pipeline.requests.open_request import OpenRequest
from headwater.slots.history import Position
from headwater.walsender.folds import bulk
from headwater.walsender.folds.member import Member

FAILING = "failing"
_deliver = bulk._deliver


def _deliver_and_fail(path: str, opened: OpenRequest, member: Member, read: Position) -> None:
    _deliver(path, opened, member, read)
    if member.given:
        raise CatalogError("it is to fail here")


if __name__ == "__main__":
    mode = sys.argv.pop(1)
    bulk.STRETCH_BYTES = 1 << 18
    EngineFlags.asks_for_spark = True  # type: ignore[method-assign, assignment]
    EngineFlags.bulk_bytes = 1 << 16  # type: ignore[method-assign, assignment]
    if mode == FAILING:
        bulk._deliver = _deliver_and_fail
    main.main()
