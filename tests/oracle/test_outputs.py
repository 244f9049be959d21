"""Many outputs from one pass: each says what a run of its own says, and the WAL is indexed and read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headwater import DecodeRequest, Output, decode, decode_outputs
from headwater.demo.stream_comparison import first_difference, joined
from headwater.jobs.engine import Engine
from headwater.pipeline.decode import RunSettings
from headwater.pipeline.windows.run_index import DEFAULT_BOUNDS, WindowBounds
from headwater.plugins.table_patterns import TablePatterns
from oracle.streams import RANDOM_PGOUTPUT
from server_versions import saying

if TYPE_CHECKING:
    import pyarrow as pa

    from oracle.decoded_run import DecodedRun

pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    # wal2json says so of a table of the workload, as it does in the server.
    pytest.mark.filterwarnings("ignore:no tuple identifier:headwater.errors.HeadwaterWarning"),
]

ASKED: tuple[dict[str, Any], ...] = (
    {"plugin": "pgoutput", "options": RANDOM_PGOUTPUT["pgoutput, all"]},
    {"plugin": "pgoutput", "options": RANDOM_PGOUTPUT["pgoutput, columns"]},
    {"plugin": "test_decoding"},
    {"plugin": "wal2json", "options": (("format-version", "2"), ("include-lsn", "1"))},
)
FINEST: tuple[dict[str, Any], ...] = (
    {
        "plugin": "pgoutput",
        "options": (("proto_version", "2"), ("publication_names", "pub_all"), ("streaming", "on")),
        "settings": (("logical_decoding_work_mem", "64kB"),),
    },
    {"plugin": "test_decoding", "two_phase": True, "settings": (("search_path", "pg_catalog"),)},
    {"plugin": "pgoutput", "options": RANDOM_PGOUTPUT["pgoutput, binary"]},
    {"plugin": "wal2json", "tables": TablePatterns(("*.wide",))},
    {"plugin": "test_decoding"},
)
"""Outputs of which some need a finer index, replays of their own, or other names of types."""


def requests_of(run: DecodedRun, asked: Sequence[dict[str, Any]]) -> list[DecodeRequest]:
    stream = run.run.streams["test_decoding"]
    plain, server_settings = replace(run.request(stream), options=()), saying(run.run.server_version)
    each = (
        {**fields, "settings": (*fields.get("settings", ()), *server_settings), "output": str(n)}
        for n, fields in enumerate(asked)
    )
    return [replace(plain, **fields) for fields in each]


def alone(engine: Engine, request: DecodeRequest) -> tuple[pa.Table, int]:
    """Return the messages of a run of its own, and the bytes of WAL that it decodes."""
    with decode(engine, request) as result:
        return joined(result.tables()), result.read_again


@pytest.mark.parametrize(
    ("asked", "bounds"),
    [
        pytest.param(ASKED, WindowBounds(1), id="plain"),
        pytest.param(ASKED, DEFAULT_BOUNDS, id="plain, in one window"),
        pytest.param(FINEST, WindowBounds(1), id="finest"),
        pytest.param(FINEST, DEFAULT_BOUNDS, id="finest, in one window"),
    ],
)
def test_each_output_says_what_it_says_alone(
    threaded_run: DecodedRun, asked: Sequence[dict[str, Any]], bounds: WindowBounds
) -> None:
    requests = requests_of(threaded_run, asked)
    with decode_outputs(
        threaded_run.engine, [Output(wanted) for wanted in requests], settings=RunSettings(bounds=bounds)
    ) as decoded:
        ((*results,),) = decoded.databases.values()
        for request, result in zip(requests, results, strict=True):
            expected, _ = alone(threaded_run.engine, request)
            difference = first_difference(expected, joined(result.tables()))
            assert difference is None, f"{request.asked}: {difference}\n{threaded_run.where_kept()}"
            assert len(expected) > 100
        assert decoded.read_again < 2 * max(result.read_again for result in results)
