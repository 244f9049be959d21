"""Releases: how they are named, and what depends on the minor."""

from __future__ import annotations

import pytest

from headwater.errors import UsageError
from headwater.pg.version import VERSIONS, version_named
from headwater.rows.session import SessionSettings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15.20", "15.20"),
        (" 15.0", "15.0"),
        ("15.20 (Debian 15.20-0+deb12u1)", "15.20"),
        ("15beta2", "15.0"),
        ("15rc1 (Debian 15~rc1-1)", "15.0"),
        ("15devel", "15.0"),
    ],
)
def test_names_of_servers(text: str, expected: str) -> None:
    assert str(version_named(text, 15)) == expected


@pytest.mark.parametrize("text", ["", "15", "15.", "15.x", "15.2.1", "v15.20", "150020", "15.20beta", "-15.2"])
def test_what_names_no_release(text: str) -> None:
    with pytest.raises(UsageError, match=r"invalid server version .*, expected one such as 15\.20"):
        version_named(text, 15)


def test_another_major() -> None:
    with pytest.raises(UsageError, match=r'"16\.2", expected one of PostgreSQL 15, whose catalog is read'):
        version_named("16.2", 15)


def test_the_newest_release_is_taken_where_none_is_named() -> None:
    assert [str(version) for version in VERSIONS.values()] == ["14.24", "15.20", "16.15", "17.12", "18.6", "19.0"]
    assert not any(version.is_newer_than_known for version in VERSIONS.values())
    assert str(SessionSettings(major=17).version) == "17.12"
    assert SessionSettings(major=17, server_version="17.9 (Debian)").server_version == "17.9"


@pytest.mark.parametrize(
    ("release", "change_size", "signs_segs", "cuts", "finishes_empty"),
    [
        ("14.23", 80, False, False, True),
        ("14.24", 80, True, False, False),
        ("15.18", 80, False, False, True),
        ("15.19", 80, True, False, False),
        ("15.20", 88, True, True, False),
        ("15.21", 88, True, True, False),
        ("16.14", 80, False, False, True),
        ("16.15", 80, True, False, False),
        ("17.10", 80, False, False, True),
        ("17.11", 80, True, False, False),
        ("17.12", 88, True, True, False),
        ("18.4", 80, False, False, False),
        ("18.6", 80, True, False, False),
        ("19.0", 80, True, True, False),
    ],
)
def test_what_depends_on_the_minor(
    release: str, change_size: int, signs_segs: bool, cuts: bool, finishes_empty: bool
) -> None:
    version = version_named(release, int(release[:2]))
    assert version.change_size == change_size
    assert (version.signs_upper_seg_bounds, version.cuts_by_least_integer) == (signs_segs, cuts)
    assert version.finishes_empty_prepared == finishes_empty
    assert version.counts_announcements_at_prepare == cuts
    assert version.reads_no_digits_as_zero == (change_size == 80 and version.major > 14)
