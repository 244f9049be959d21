"""Which servers the tests can have: ``tools/install_postgres.py`` knows their packages."""

from __future__ import annotations

import platform


def is_packaged(major: int) -> bool:
    """Whether there is a package of this major for this machine."""
    return major != 14 or platform.machine() != "aarch64"
