"""An archive of the classes that Spark's Java process loads, which the next one maps instead of loading them again.

It saves a quarter of the time in which a command starts. Java makes it at its end (JEP 350), which takes the first
command of a machine some seconds. Java checks itself whether one fits, by its own version and the libraries' names and
times, and goes without if not. What is mapped is run: archives lie where compiled kernels do, and one is there whole or
not at all. Where Java refuses to make one, that is noted, and no later command tries again. One that was not used for a
month goes when another is made. Only for a process that orchestrates tasks of its own machine; where the cache cannot
be used there is none, and nothing is said of it.

Known gap: the options are those of HotSpot.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkContext, __version__
from pyspark.find_spark_home import _find_spark_home

from headwater.base.cache_places import java_cache
from headwater.base.trusted_paths import check_path, make_directory
from headwater.base.whole_files import move_whole, sync_tree
from headwater.errors import HeadwaterError

_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Java writes what it thinks of archives to standard output, where results go."""

_MORE_FLAGS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Where Java itself looks for options."""

_LONGEST_TRIAL_SECONDS = 10.0
_LONGEST_END_SECONDS = 60.0
_UNUSED_SECONDS = 30 * 86400


class ClassArchive:
    """The archive for one kind of process.

    Args:
        flags: what the process is started with otherwise; the user's own word on archives counts.

    Attributes:
        options: the flags that Java gets also: an archive to use, or where to make one.
    """

    def __init__(self, flags: str) -> None:
        self.options: tuple[str, ...] = ()
        self._made: Path | None = None
        directory, java = _directory(), _java()
        if directory is None or java is None or "ClassesAtExit" in flags or "SharedArchive" in flags:
            return
        self._path = directory / f"{_digest(java, flags)}.jsa"
        if self._path.is_file():
            with suppress(OSError):
                os.utime(self._path)
            self.options = (f'"-XX:SharedArchiveFile={self._path}"', *_QUIET)
        elif not self._refused.exists():
            _remove_unfinished(self._path)
            made = self._path.with_suffix(f".{os.getpid()}")
            options = (f'"-XX:ArchiveClassesAtExit={made}"', *_QUIET)
            if _starts(java, flags, options):
                self._made, self.options = made, options
            else:
                _touch(self._refused)
            made.unlink(missing_ok=True)

    @property
    def _refused(self) -> Path:
        """A note that Java makes no archive here, in the archive's place."""
        return self._path.with_suffix(".none")

    def keep(self, process: subprocess.Popen[Any]) -> None:
        """End Java at the end of this process, and keep the archive that it makes.

        Args:
            process: Java's; nothing is to be done with it any more.
        """
        if self._made is None:
            return
        with suppress(OSError, KeyboardInterrupt):
            if SparkContext._active_spark_context is not None:
                SparkContext._active_spark_context.stop()
            if process.stdin is not None:
                process.stdin.close()
            self._keep_made(self._made, process)
        with suppress(OSError):
            self._made.unlink(missing_ok=True)

    def _keep_made(self, made: Path, process: subprocess.Popen[Any]) -> None:
        try:
            code = process.wait(_LONGEST_END_SECONDS)
        except subprocess.TimeoutExpired:
            _touch(self._refused)
            return
        if code == 0 and made.is_file():
            sync_tree(made)
            move_whole(made, self._path)
            _remove_unused(made.parent)
        elif code == 0:
            _touch(self._refused)


def _touch(path: Path) -> None:
    with suppress(OSError):
        path.touch()


def _starts(java: Path, flags: str, options: Sequence[str]) -> bool:
    """Tell whether this Java starts with the options.

    One that has no archive of its own, or another maker's, may refuse.
    """
    try:
        command = [str(java), *shlex.split(" ".join((flags, *options))), "-version"]
        return subprocess.run(command, capture_output=True, timeout=_LONGEST_TRIAL_SECONDS).returncode == 0
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False


def _remove_unused(directory: Path) -> None:
    """Remove archives that were not used for long: they are large, and each Java and Spark has its own."""
    since = time.time() - _UNUSED_SECONDS
    for file in [*directory.glob("*.jsa"), *directory.glob("*.none")]:
        with suppress(OSError):
            if file.stat().st_mtime < since:
                file.unlink()


def _directory() -> Path | None:
    """Return the directory of archives, if nobody else can write there."""
    try:
        place = java_cache()
        make_directory(place, 0o700)
        directory = check_path(place)
    except (OSError, HeadwaterError):
        return None
    return directory if os.access(directory, os.W_OK) else None


def _remove_unfinished(path: Path) -> None:
    """Remove what killed processes have left."""
    for file in path.parent.glob(f"{path.stem}.[0-9]*"):
        if not Path("/proc", file.suffix[1:]).exists():
            file.unlink(missing_ok=True)


def _java() -> Path | None:
    """Find the Java that Spark's scripts start."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    return Path(program).resolve() if program else None


def _digest(java: Path, flags: str) -> str:
    """Return a name for what an archive depends on."""
    spark = Path(_find_spark_home())
    times = [file.stat().st_mtime_ns for file in (java, spark / "jars") if file.exists()]
    more = [os.environ.get(name) for name in _MORE_FLAGS]
    return hashlib.sha256(f"{java} {spark} {__version__} {times} {flags} {more}".encode()).hexdigest()[:16]
