"""However the output of huge transactions is cut, joined it is the server's."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from headwater.rmgr.index.wal_index import GRID
from reorder.huge_transactions import OPTIONS, ServerRun, decoded

pytestmark = pytest.mark.server
TARGETS = (1, 50_000, 1 << 20, 1 << 40)


@pytest.mark.parametrize("plugin", list(OPTIONS))
@pytest.mark.parametrize("grid", [1 << 13, 1 << 16, GRID])
def test_any_cut_gives_the_servers_messages(server_run: ServerRun, plugin: str, grid: int) -> None:
    expected = server_run.messages[plugin]
    counts = []
    for slices, actual in decoded(server_run, plugin, grid, TARGETS):
        counts.append(len(slices))
        for at, (their, our) in enumerate(zip_longest(expected, actual)):
            assert their == our, (at, len(slices))
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1


def test_huge_transactions_are_cut(server_run: ServerRun) -> None:
    slices, _ = next(decoded(server_run, "test_decoding", 1 << 16, [50_000]))
    per_unit = [int(slice_.units.xid[0]) for slice_ in slices if len(slice_.units.xid) == 1]
    assert max(per_unit.count(xid) for xid in per_unit) > 20
    # A slice names only the subtransactions whose changes it holds.
    assert max(len(slice_.units.member_xid) for slice_ in slices if len(slice_.units.xid) == 1) < 20
