"""Rules for what comes in: beside a stock subscription whose publication filters and lists come to the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from apply.applied_work import LEAVES, SOURCE_TABLES, TARGET_TABLES, WITHOUT_KEY, AppliedWork
from apply.mapped_runs import SCHEMA, mapped_differential
from packaged_servers import is_packaged

pytestmark = pytest.mark.server

TABLES = (
    *("marker", "keyed", "typed", "pair", "bag", "full_key", "by_index", "event", "diary", "parent", "child", "log"),
    *("figures", "numbered", "cut", "by_hash", '"Odd"'),
)
CONDITIONS = {
    "keyed": "id % 2 = 0",
    "pair": "b > '1'",
    "bag": "a < 3",
    "by_index": "id <> 7",
    "numbered": "id > 5",
}
LISTS = {"typed": ("id", "flag", "r", "j", "raw", "at"), "cut": ("id", "b", "c"), '"Odd"': ('"Id"', '"größe"')}
LEFT_OUT = {
    "typed": ("small", "f", "d", "ts", "tz", "iv", "how", "dom", "span", "arr", "net", "bits", "ch", "u", "n", "wide"),
    "cut": ("a",),
    '"Odd"': ('"select"',),
}
WHOLE_ROWS = ("ALTER TABLE keyed REPLICA IDENTITY FULL", "ALTER TABLE pair REPLICA IDENTITY FULL")
"""Rows that come into a condition have values that were not written again."""
RENAMES = {"keyed": ("note", "remark"), "child": ("label", "named"), "log": ("kind", "sort")}
OPTIONS = {
    "batches": (),
    "serial": ("--no-batches",),
    "streamed": ("--streaming", "on"),
    "ahead": ("--streaming", "parallel"),
    "two-phase": (),
}
STREAMED = {"logical_decoding_work_mem": "64kB"}
DAILY = (("batches", 18),)
(_FUNCTION,) = (text for text in TARGET_TABLES if "CREATE FUNCTION" in text)
_NOTE_CHANGE = _FUNCTION.replace("CREATE FUNCTION ", "CREATE OR REPLACE FUNCTION public.").replace(
    "public.seen_changes", f"{SCHEMA}.seen_changes"
)


def _publication() -> str:
    """Return the objects of the publication that filters by itself."""
    objects = []
    for table in TABLES:
        columns = f" ({', '.join(LISTS[table])})" if table in LISTS else ""
        condition = f" WHERE ({CONDITIONS[table]})" if table in CONDITIONS else ""
        objects.append(f"{table}{columns}{condition}")
    return f"FOR TABLE {', '.join(objects)} WITH (publish_via_partition_root = true)"


def _flags() -> list[str]:
    """Return the same as rules."""
    flags = [word for table, text in CONDITIONS.items() for word in ("--where", f"public.{table}: {text}")]
    flags += [word for table, (old, new) in RENAMES.items() for word in ("--rename", f"public.{table}.{old}={new}")]
    columns = [f"public.{table}.{column}" for table, names in LEFT_OUT.items() for column in names]
    return (
        flags + [word for column in columns for word in ("--exclude-column", column)] + ["--exclude-table", "public.g*"]
    )


@pytest.mark.parametrize(
    ("kind", "major", "seed"),
    [
        *(pytest.param(*case, 1, id="-".join(map(str, case))) for case in DAILY),
        *(
            pytest.param(kind, major, seed, marks=pytest.mark.slow, id=f"{kind}-{major}-{seed}")
            for kind in OPTIONS
            for major in (15, 16, 17, 18, 19)
            for seed in (2, 3)
            if is_packaged(major)
        ),
    ],
)
def test_random_work(tmp_path: Path, kind: str, major: int, seed: int) -> None:
    renames = [_NOTE_CHANGE, *(f"ALTER TABLE {table} RENAME {old} TO {new}" for table, (old, new) in RENAMES.items())]
    is_two_phase = kind == "two-phase"
    left_out = (*LEAVES, *WITHOUT_KEY) if is_two_phase else LEAVES
    whole = f"FOR TABLE {', '.join(TABLES)}, green WITH (publish_via_partition_root = true)"
    with mapped_differential(
        tmp_path,
        major,
        (*SOURCE_TABLES, *WHOLE_ROWS),
        (_publication(), whole),
        (*_flags(), *OPTIONS[kind]),
        target_tables=TARGET_TABLES,
        renames=renames,
        is_two_phase=is_two_phase,
        settings=STREAMED if "--streaming" in OPTIONS[kind] else None,
    ) as pair:
        writers = AppliedWork(pair.publisher.connect, seed, left_out, prepares=is_two_phase)
        for _ in range(3):
            writers.round(25)
            pair.catch_up()
            pair.compare()
            writers.settle()
        writers.close()
        pair.catch_up()
        rows = pair.compare()
        assert any(rows[table] for table in CONDITIONS)
        assert not rows["green"]
