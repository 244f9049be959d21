"""The archive of Java's classes is there whole or not at all, and made once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pyspark import SparkContext

from headwater.spark.java_classes import ClassArchive

LONG_AGO = 1_600_000_000


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of kept archives; the session that other tests share uses none of them."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setenv("HEADWATER_CACHE_DIR", str(tmp_path))
    return tmp_path / "java"


def _run(archive: ClassArchive, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run a Java process with the archive's options, and return its output."""
    options = [option.strip('"') for option in archive.options]
    return subprocess.run(["java", *options, *flags, "-version"], capture_output=True, text=True)


def _made(archive: ClassArchive) -> None:
    options = [option.strip('"') for option in archive.options]
    process = subprocess.Popen(["java", *options, "-version"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    archive.keep(process)
    process.wait()


def test_the_first_process_makes_it_and_the_next_maps_it(directory: Path) -> None:
    first = ClassArchive("")
    assert "ArchiveClassesAtExit" in first.options[0]
    _made(first)
    (archive,) = directory.iterdir()
    again = ClassArchive("")
    assert again.options[0] == f'"-XX:SharedArchiveFile={archive}"'
    assert "shared objects file" in _run(again, "-Xshare:on", "-Xlog:class+load:stderr").stderr
    assert "ArchiveClassesAtExit" in ClassArchive("-Xmx1g").options[0]


def test_where_java_refuses_nobody_tries_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xshare:off")
    assert ClassArchive("").options == ()
    assert [file.suffix for file in directory.iterdir()] == [".none"]
    assert ClassArchive("").options == ()
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    assert "ArchiveClassesAtExit" in ClassArchive("").options[0]


def test_where_java_made_none_nobody_tries_again(directory: Path) -> None:
    archive = ClassArchive("")
    process = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    archive.keep(process)
    assert [file.suffix for file in directory.iterdir()] == [".none"]
    assert ClassArchive("").options == ()


def test_of_a_process_that_was_killed_nothing_is_kept(directory: Path) -> None:
    archive = ClassArchive("")
    process = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE)
    process.kill()
    archive.keep(process)
    assert list(directory.iterdir()) == []
    assert "ArchiveClassesAtExit" in ClassArchive("").options[0]


def test_what_nobody_used_for_long_goes_when_another_is_made(directory: Path) -> None:
    for flags in ("-Xmx1g", "-Xmx2g"):
        _made(ClassArchive(flags))
    old = Path(ClassArchive("-Xmx1g").options[0].strip('"').partition("=")[2])
    for file in directory.iterdir():
        os.utime(file, (LONG_AGO, LONG_AGO))
    ClassArchive("-Xmx1g")
    _made(ClassArchive("-Xmx3g"))
    assert old in directory.iterdir()
    assert len(list(directory.iterdir())) == 2


def test_where_others_can_write_there_is_none(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    assert ClassArchive("").options == ()


@pytest.mark.usefixtures("directory")
def test_a_users_own_archive_counts() -> None:
    assert ClassArchive("-XX:SharedArchiveFile=/elsewhere").options == ()
