"""The demo as users run it: pgbench with 4 clients and the shop, the server stopped, every message compared."""

from __future__ import annotations

import re

import pytest

from headwater.cli.demo_run import run_demo

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.mark.usefixtures("spark")
def test_the_demo_is_byte_identical(pgbench_transactions: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_demo(pgbench_transactions=pgbench_transactions, shop_rounds=30) == 0
    verdict = re.search(r"byte-identical: (\d+) messages", capsys.readouterr().out)
    assert verdict is not None
    # Of 4 clients, four changes a transaction, its beginning and its end.
    assert int(verdict[1]) > 4 * pgbench_transactions * 6
