"""The public API: every name can be imported, and importing the package imports none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headwater

NOTHING = "import sys, headwater; print(*sorted(name for name in sys.modules if name.startswith('headwater.')))"


@pytest.mark.parametrize("name", headwater.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(headwater, name) is not None


def test_the_package_alone_imports_no_room() -> None:
    run = subprocess.run([sys.executable, "-c", NOTHING], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_names_have_one_place() -> None:
    assert sorted(headwater._MODULES) == sorted({*headwater.__all__} - {"__version__", "register"})


def test_no_other_name_is_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'decoder'"):
        headwater.decoder  # noqa: B018
