"""Outcomes of PostgreSQL's scripts of subscriptions with ``headwater apply`` as the subscriber, as a table."""

from __future__ import annotations

from apply.scripts.counted_runs import FORMS, read_counts

SAME = "the same"

OUTCOMES: dict[str, str] = {
    "001_rep_changes": "the same; a connection string cannot be altered, nor a name: a start says both",
    "002_types": SAME,
    "003_constraints": SAME,
    "004_sync": SAME,
    "005_encoding": SAME,
    "006_rewrite": SAME,
    "007_ddl": "a publication that is missing is an error, tried again, in place of a warning; `DROP` without a "
    "slot is `subscription drop --keep-slot`",
    "008_diff_schema": SAME,
    "009_matviews": SAME,
    "010_truncate": "the same, also as a synchronous standby",
    "011_generated": SAME,
    "012_collation": SAME,
    "013_partition": SAME,
    "014_binary": SAME,
    "015_stream": "the same rows; where the stock worker ends in a deadlock, what is applied ahead makes way",
    "016_stream_subxact": SAME,
    "017_stream_ddl": SAME,
    "018_stream_subxact_abort": SAME,
    "019_stream_subxact_ddl_abort": SAME,
    "020_messages": "messages are not asked for; what the slot's functions print is the publisher's",
    "021_twophase": "the same; `two_phase` cannot be altered; of an enabled subscription `failover` can be",
    "022_twophase_cascade": SAME,
    "023_twophase_stream": SAME,
    "024_add_drop_pub": "the same, by `subscription set publication=`",
    "025_rep_changes_for_schema": SAME,
    "026_stats": "the same counts in `headwater.stat_subscription_stats`, which are not reset; no sequences",
    "027_nosuperuser": "the same; whether a password is needed is left to the servers, and lost rights "
    "are noticed at the next change",
    "028_row_filter": SAME,
    "029_on_error": "the same; the next start is told of `--enable` and `--skip-lsn`",
    "030_origin": "the same; copies with `--origin none` are not warned of",
    "031_column_list": SAME,
    "032_subscribe_use_index": "the same rows; an index with a predicate, or of expressions alone, may be read, too",
    "033_run_as_table_owner": "the same, but for initial copies, which are made as the role of `--to`",
    "034_temporal": "the same; `FOR PORTION OF` is an update and inserts in the stream",
    "035_conflicts": "the same, but for `update_deleted`, and the dead rows that are retained for it; no table of "
    "`pg_conflict`, but `headwater.conflicts`",
    "036_sequences": "none: sequences are not synchronised from a server",
    "037_except": SAME,
    "038_walsnd_shutdown_timeout": "about the publisher; a lock is waited for over its end, and nothing is lost",
    "100_bugs": SAME,
}
"""By script of 19's; of those that are about less, what is about applying."""

_INTRODUCTION = (
    "## The subscriber's side",
    "",
    "The same scripts in words of their own, with `headwater apply` as the subscriber (`tests/apply/scripts`): what a",
    "script does to a subscriber, and what it expects of its rows, errors and conflicts. `make test` runs some of each",
    "group on 18, `make test-all` all: with a server of 16, 18 and 19 as the publisher, and with",
    "[the service](guides/serving.md). A cell says how many of the script's tests pass. `left out`: it needs a later",
    "major, or is about the server's own part. `not run`: not in the runs that this page is written from. `-`: there",
    "is none.",
)


def subscriber_section() -> str:
    """Write the section of the page of conformance."""
    heads = ["script", *FORMS.values(), "what came out"]
    rows = (_row(name, outcome) for name, outcome in OUTCOMES.items())
    return "\n".join([*_INTRODUCTION, "", _line(heads), "|---" * len(heads) + "|", *rows]) + "\n"


def _row(script: str, outcome: str) -> str:
    counts = read_counts().get(script[:3], {})
    return _line([f"`{script}`", *(str(counts.get(form, "-")) for form in FORMS), outcome])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
