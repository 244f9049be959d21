"""Warnings: one line each, for the command's standard error and for Python's own ``warnings``."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from headwater.errors import HeadwaterWarning, held_warnings, warn


def test_a_warning_is_one_line_with_its_place_and_what_to_do() -> None:
    with pytest.warns(HeadwaterWarning) as caught:
        warn("commits are left out", lsn=0x1_0000_0010, file="/backup", hint="begin later")
    assert [str(warning.message) for warning in caught] == ["commits are left out (at 1/10, in /backup); begin later"]


def test_the_command_prints_ours_as_a_line_and_others_as_python_does() -> None:
    script = (
        "import warnings; from headwater.cli.main import _warn_in_one_line; from headwater.errors import warn;"
        "_warn_in_one_line(); warn('left\\nout'); warnings.warn('not ours')"
    )
    run = subprocess.run([sys.executable, "-W", "default", "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == ""
    assert run.stderr.splitlines()[0] == "headwater: warning: left out"
    assert "UserWarning: not ours" in run.stderr


def test_held_warnings_are_ours_and_each_once() -> None:
    with warnings.catch_warnings(record=True) as shown, held_warnings() as held:
        warnings.simplefilter("default")
        warn("something", file="f")
        warn("something", file="f")
        warn("else")
        warnings.warn("another's", RuntimeWarning, stacklevel=1)
    assert [str(warning) for warning in held] == ["something (in f)", "else"]
    assert [str(warning.message) for warning in shown] == ["another's"]


def test_a_warning_that_is_given_once_more_by_its_text() -> None:
    """Numba does so, from whatever thread it was held while Numba compiled."""
    first = HeadwaterWarning("something", 0x10, "a file", "a hint")
    assert str(HeadwaterWarning(str(first))) == str(first)
