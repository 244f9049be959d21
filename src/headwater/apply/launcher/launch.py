"""The subscriptions that a launcher is to run, as its file has it: they are checked, and can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.apply.incoming.requests import ApplyRequest


@dataclass(frozen=True)
class Launched:
    """A subscription as its file has it.

    Attributes:
        name: its name; values: of the flags, as JSON has them; request: what comes of them.
    """

    name: str
    values: Mapping[str, Any]
    request: ApplyRequest = field(compare=False)


@dataclass(frozen=True)
class Launch:
    """The subscriptions of a launcher, and what is its own.

    Attributes:
        subscriptions: by name; directory: of its socket and locks; http: where its status is shown, None for nowhere.
    """

    subscriptions: Mapping[str, Launched]
    directory: Path
    http: str | None
