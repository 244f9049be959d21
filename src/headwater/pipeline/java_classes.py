"""An archive of the classes that Spark's Java process loads, which the next one maps instead of loading them anew.

It saves a quarter of the time in which a command starts. Java makes it at its end (JEP 350), which takes the first
command of a machine some seconds; whether one fits, by its own version and the libraries' names and times, Java looks
itself, and goes without if not. What is mapped is run: archives lie where compiled kernels do, and one is there whole
or not at all. Only for a process that orchestrates tasks of its own machine; where the cache cannot be used there is
none, and nothing is said of it.

Known gaps: archives of a Spark or Java that is not there any more stay in the cache, 120 MB each. The options are those
of HotSpot.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

from pyspark import SparkContext, __version__
from pyspark.find_spark_home import _find_spark_home

from headwater.caches import java_cache
from headwater.errors import HeadwaterError
from headwater.trusted_paths import check_path, make_directory

_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Java writes what it thinks of archives to standard output, where results go."""

_LONGEST_END_SECONDS = 60.0


class ClassArchive:
    """The archive for one kind of process.

    Args:
        flags: what the process is started with otherwise; the user's own word on archives counts.

    Attributes:
        options: what Java is given besides: an archive to use, or where to make one.
    """

    def __init__(self, flags: str) -> None:
        self.options: tuple[str, ...] = ()
        self._made: Path | None = None
        directory, java = _directory(), _java()
        if directory is None or java is None or "ClassesAtExit" in flags or "SharedArchive" in flags:
            return
        self._path = directory / f"{_digest(java, flags)}.jsa"
        if self._path.is_file():
            self.options = (f'"-XX:SharedArchiveFile={self._path}"', *_QUIET)
        else:
            _remove_unfinished(self._path)
            self._made = self._path.with_suffix(f".{os.getpid()}")
            self.options = (f'"-XX:ArchiveClassesAtExit={self._made}"', *_QUIET)

    def keep(self, process: Popen[Any]) -> None:
        """At the end of this process: end Java, and keep the archive that it makes.

        Args:
            process: it; nothing is to be done with it any more.
        """
        if self._made is None:
            return
        with suppress(OSError, TimeoutExpired, KeyboardInterrupt):
            if SparkContext._active_spark_context is not None:
                SparkContext._active_spark_context.stop()
            if process.stdin is not None:
                process.stdin.close()
            if process.wait(_LONGEST_END_SECONDS) == 0:
                os.replace(self._made, self._path)
        with suppress(OSError):
            self._made.unlink(missing_ok=True)


def _directory() -> Path | None:
    """Where archives are kept, if nobody else can write there."""
    try:
        place = java_cache()
        make_directory(place, 0o700)
        found = check_path(place)
    except (OSError, HeadwaterError):
        return None
    return found if os.access(found, os.W_OK) else None


def _remove_unfinished(path: Path) -> None:
    """What processes that were killed have left."""
    for one in path.parent.glob(f"{path.stem}.*"):
        if not Path("/proc", one.suffix[1:]).exists():
            one.unlink(missing_ok=True)


def _java() -> Path | None:
    """The Java that Spark's scripts start."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    return Path(found).resolve() if found else None


def _digest(java: Path, flags: str) -> str:
    """A name for what an archive depends on."""
    spark = Path(_find_spark_home())
    times = [one.stat().st_mtime_ns for one in (java, spark / "jars") if one.exists()]
    return hashlib.sha256(f"{java} {spark} {__version__} {times} {flags}".encode()).hexdigest()[:16]
