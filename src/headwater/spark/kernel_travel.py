"""Compiled kernels travel from the driver to the machines of a cluster.

The driver packs what its cache holds of the kernels that tasks call, and adds it to the application's files; Spark
brings it to each executor before its first task. There it is put into the machine's own cache, once. Numba loads a
machine code only where its own version, the processor and its features are the driver's; elsewhere the signatures
that came along say what is to be compiled, by one process of the machine (:mod:`headwater.base.kernel_cache`). Kernels
of another text are left out: the name of their directory says which text they are of.

What is loaded is run: an executor takes the archive only from where nobody but its own user could have put it. Spark
brought it there, as it does the functions that tasks run.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import zipfile
from functools import cache
from pathlib import Path

from pyspark import SparkContext, SparkFiles

from headwater.base.kernel_cache import SharedCache, lock_file, say_once
from headwater.base.kernels import cache_directory
from headwater.base.locks import release
from headwater.base.temporary_directories import OwnDirectory
from headwater.base.trusted_paths import check_path
from headwater.base.whole_files import write_whole
from headwater.errors import UntrustedPathError
from headwater.spark.kernel_loading import import_rooms, task_kernels
from headwater.spark.settings import is_local

_PREFIX = "headwater-kernels-"


def send_kernels(context: SparkContext) -> None:
    """Add the driver's compiled kernels to an application's files; nothing to do for a local master, or twice.

    Args:
        context: its context.
    """
    if is_local(str(context.master)) or any(_PREFIX in name for name in context.listFiles):
        return
    directory = _sent_files()
    archive = pack_kernels(directory)
    if archive is not None:
        context.addFile(str(archive))


@cache
def _sent_files() -> Path:
    """Make a directory that lasts as long as this process: executors that come later ask for the file then."""
    directory = OwnDirectory()
    atexit.register(directory.close)
    return directory.path


def pack_kernels(directory: Path) -> Path | None:
    """Make an archive of the compiled kernels that tasks call.

    Args:
        directory: where it is put.

    Returns:
        its path, which says what is in it; None if no kernel is compiled.
    """
    import_rooms()
    files = {name: data for kernel in task_kernels() for name, data in _compiled_files(kernel._cache).items()}
    if not files:
        return None
    digest = hashlib.sha256(repr(sorted(files)).encode())
    path = directory / f"{_PREFIX}{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(files):
            archive.writestr(name, files[name])
    return path


def _compiled_files(cache: SharedCache) -> dict[str, bytes]:
    """Return the names in the archive, ``module/digest/file``, and the files of a kernel.

    There are none while something is missing.
    """
    names = cache.kept_files()
    try:
        paths = [cache.index.with_name(name) for name in ([cache.index.name, *names] if names else ())]
        return {_folder(cache) + path.name: path.read_bytes() for path in paths}
    except OSError:
        return {}  # Another process adds to it at this moment: its index is there first.


@cache
def receive_kernels(directory: Path | None = None) -> int:
    """Put what travelled into this machine's cache; looks only once in a process.

    Args:
        directory: where Spark puts an application's files; None to ask Spark, in a task.

    Returns:
        how many files are new.
    """
    place = directory if directory is not None else Path(SparkFiles.getRootDirectory())
    return sum(map(unpack_kernels, sorted(place.glob(f"{_PREFIX}*.zip"))))


def unpack_kernels(archive: Path) -> int:
    """Put those of an archive's kernels into the cache of which it has nothing yet.

    Args:
        archive: what :func:`pack_kernels` made.

    Returns:
        how many files are new.
    """
    try:
        trusted = check_path(archive)
    except UntrustedPathError as error:
        say_once(f"compiled kernels that came from the driver are not used ({error.message})")
        return 0
    import_rooms()
    with zipfile.ZipFile(trusted) as opened:
        names = set(opened.namelist())
        return sum(_unpack(opened, names, kernel._cache) for kernel in task_kernels())


def _unpack(archive: zipfile.ZipFile, names: set[str], cache: SharedCache) -> int:
    """Put one kernel's files into its cache; nobody compiles it meanwhile."""
    index = _folder(cache) + cache.index.name
    lock = lock_file(cache.lock_path) if index in names and not cache.index.exists() else None
    if lock is None:
        return 0
    try:
        if cache.index.exists():
            return 0
        start = index.removesuffix(".nbi") + "."
        files = [name for name in sorted(names) if name.startswith(start) and name.endswith(".nbc")]
        for name in [*files, index]:
            _extract(archive, name, cache.index.parent)
        return len(files) + 1
    except OSError:
        return 0
    finally:
        release(lock)


def _extract(archive: zipfile.ZipFile, name: str, place: Path) -> None:
    write_whole(place / os.path.basename(name), [archive.read(name)], is_lasting=False)


def _folder(cache: SharedCache) -> str:
    """Return a kernel's folder in an archive: under its module, and the digest of all that its code is made of."""
    return f"{cache.module}/{cache_directory(cache.module).name}/"
