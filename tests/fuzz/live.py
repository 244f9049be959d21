"""Malformed sessions played to a live service: ``python -m fuzz.live --sessions N``; 1 if it did not stand them."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psycopg

from bad_input.servers import small_server
from fuzz.live_sessions import WAYS, played
from serving.service import Serving, backup_of


def play(serving: Serving, sessions: int, seed: int) -> Counter[str]:
    """Play sessions; count the errors that came back by SQLSTATE.

    Raises:
        AssertionError: an answer is none of the protocol, or others are not served meanwhile.
        TimeoutError: the service does not answer.
    """
    states: Counter[str] = Counter()
    conninfo = f"host=127.0.0.1 port={serving.port} user=postgres dbname=postgres replication=database"
    with psycopg.connect(conninfo, autocommit=True, prepare_threshold=None) as other:
        for number in range(sessions):
            rng = random.Random(f"{seed} {number}")
            try:
                answers = played(("127.0.0.1", serving.port), rng.choice(WAYS)(rng))
                assert number % 100 or other.execute("SELECT 1").fetchone() == (1,)
            except BaseException:
                print(f"FAILED: seed {seed}, session {number}", flush=True)
                raise
            states.update(state for _, state, _ in answers.errors)
    return states


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="fuzz.live", description="malformed sessions for a live service")
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, small_server(18) as server:
        place = Path(scratch)
        catalog = backup_of(server, place / "base")
        with Serving(server.wal_directory, catalog, place / "slots") as serving:
            states = play(serving, asked.sessions, asked.seed)
        log = serving.log.read_text()
    print(f"{asked.sessions} sessions: {', '.join(f'{state} {count}' for state, count in states.most_common())}")
    return 1 if "Traceback" in log or "a fault of the program" in log else 0


if __name__ == "__main__":
    sys.exit(main())
