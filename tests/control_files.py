"""Control files of servers' directories, read for what tests want to know."""

from __future__ import annotations

from pathlib import Path

from headwater.wal.control import ControlFile, parse_control_file


def read_control_file(data_directory: Path) -> ControlFile:
    """Read ``global/pg_control`` of a data directory."""
    file = data_directory / "global" / "pg_control"
    return parse_control_file(file.read_bytes(), str(file))
