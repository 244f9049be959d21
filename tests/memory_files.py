"""Temporary files of a run in memory, where it has room for them.

A run makes and removes some hundred thousand files, of servers, backups and lakes. On a disk that takes as long as the
work itself; ext4 without a journal looks at each inode that was freed in the last minute before it gives one away.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
LEAST_FREE, LEAST_AVAILABLE = 10 << 30, 16 << 30
"""Bytes: of the files' place, and of memory, which Spark and the servers need as well."""


def use_memory_for_files() -> None:
    """Let this process and those that it starts make temporary files in memory, unless ``TMPDIR`` names a place."""
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def _has_room() -> bool:
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK | os.X_OK):
        return False
    return shutil.disk_usage(MEMORY).free >= LEAST_FREE and _available() >= LEAST_AVAILABLE


def _available() -> int:
    """Bytes of memory that programs can have."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    kilobytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), "0")
    return int(kilobytes) << 10
