"""Kinds of input: what is mutated, and the code that has to read it.

A kind makes an input of a generator, and hands it to headwater; whatever is raised then is for others to judge. Nothing
is kept from one input to the next.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from fuzz.corpus import Corpus


class Kind(ABC):
    """A kind of input.

    Args:
        corpora: what is mutated.
        scratch: an empty directory of its own.

    Attributes:
        name: what it is called.
        share: of all inputs, relative to others.
    """

    name: str
    share: float

    @abstractmethod
    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None: ...

    @abstractmethod
    def run(self, rng: random.Random) -> str | None:
        """Make an input and have it read.

        Returns:
            what came of it, in a word, if it was no error; None: nothing to say.
        """


def all_kinds() -> list[type[Kind]]:
    """List all kinds."""
    from fuzz import file_kinds, heap_kinds, protocol_kinds, value_kinds, wal_kinds

    return [*wal_kinds.KINDS, *file_kinds.KINDS, *heap_kinds.KINDS, *value_kinds.KINDS, *protocol_kinds.KINDS]
