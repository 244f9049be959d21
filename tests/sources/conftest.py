"""One server's run, its WAL kept in many forms; the command in this process."""

from __future__ import annotations

from slots.conftest import command as command
from slots.conftest import server_run as server_run
