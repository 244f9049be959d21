"""Values that driver and tasks hand each other as files of the scratch directory.

An index or a slice can hold tens of megabytes of flat arrays; as a file it is written and read once, while through
Spark it would be copied by the JVM on its way. A file appears under its name only when it is whole.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Stored(Generic[T]):
    """A value in a file; pickles as its name.

    Attributes:
        path: the file.
    """

    path: str

    def load(self) -> T:
        """The value."""
        with open(self.path, "rb") as source:
            value: T = pickle.load(source)
        return value


def store(value: T, path: str) -> Stored[T]:
    """Write a value.

    Args:
        value: must pickle.
        path: the file.

    Returns:
        what to hand over.
    """
    part = f"{path}.part"
    with open(part, "wb") as sink:
        pickle.dump(value, sink, protocol=5)
    os.replace(part, path)
    return Stored(path)
