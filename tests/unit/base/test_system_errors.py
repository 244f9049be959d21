"""Errors of the system, as users read them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from headwater.base.system_errors import errors_as, reason_of, system_error
from headwater.errors import CatalogError, HeadwaterError, SlotError, UsageError

FULL = OSError(errno.ENOSPC, "No space left on device", "/place")


def test_the_reason_has_neither_number_nor_file() -> None:
    assert reason_of(FULL) == "No space left on device"
    assert reason_of(OSError("a library's own words")) == "a library's own words"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (system_error("write output", FULL), "could not write output: No space left on device (in /place)"),
        (
            system_error("write output", FULL, SlotError, file=Path("/other"), hint="make room", lsn=0x1_0000_0028),
            "could not write output: No space left on device (at 1/28, in /other); make room",
        ),
        (system_error("read", OSError("broken")), "could not read: broken"),
        (system_error("read", OSError(errno.EIO, "gone", b"/bytes")), "could not read: gone (in /bytes)"),
    ],
)
def test_an_error_says_what_could_not_be_done(error: HeadwaterError, text: str) -> None:
    assert error.one_line() == text


def test_errors_are_of_the_kind_that_is_asked_for() -> None:
    refused = pytest.raises(CatalogError, match="could not read file: Is a directory")
    with refused as caught, errors_as(CatalogError, "read file", "/named", "name a file"):
        Path("/").read_bytes()
    assert (caught.value.file, caught.value.hint) == ("/named", "name a file")
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(UsageError), errors_as(CatalogError, "read file"):
        raise UsageError("wrong")
    with pytest.raises(CatalogError) as caught, errors_as(CatalogError, "read file"):
        os.stat(tmp_path / "missing")
    assert caught.value.file == str(tmp_path / "missing")
