"""Faults of a store, one in so many requests, in an order that a seed gives."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

from landing.stores.proxy import CUT, CUT_BEHIND, LOSE, PASS, REFUSE

FAULTS = (REFUSE, LOSE, CUT, CUT_BEHIND)


def faults(seed: int, one_in: int, kinds: Sequence[str] = FAULTS) -> Callable[[str, str, bool], str]:
    """Return who gives each request its fate.

    Args:
        seed: of the order; one_in: so many requests one fails; kinds: how.
    """
    rng, lock = random.Random(seed), threading.Lock()

    def choose(_method: str, _path: str, _on_condition: bool) -> str:
        with lock:
            return rng.choice(kinds) if rng.randrange(one_in) == 0 else PASS

    return choose


def first_answers_lost() -> Callable[[str, str, bool], str]:
    """Return who lets each request be done, and its answer be lost the first time that it is asked."""
    known: set[tuple[str, str]] = set()
    lock = threading.Lock()

    def choose(method: str, path: str, _on_condition: bool) -> str:
        with lock:
            is_first = (method, path) not in known
            known.add((method, path))
        return LOSE if is_first else PASS

    return choose
