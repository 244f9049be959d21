"""The directory that all processes of a run share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def run_directory(factory: pytest.TempPathFactory) -> Path:
    """Find the directory of this run; pytest removes it some runs later."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
