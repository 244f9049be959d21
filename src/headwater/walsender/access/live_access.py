"""Access to a service as its files have it now: loaded again when asked for, users also when their file changes.

Logins that have begun go on with what there was. A file that cannot be used leaves what was loaded before; the log says
why, once.

PostgreSQL: process_pm_reload_request (postmaster.c), load_hba (hba.c); roles are in a catalog there, and so take effect
at once.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace

from headwater.errors import AccessError
from headwater.pg.version import Version
from headwater.walsender.access.access_files import AccessFiles, LoadedAccess
from headwater.walsender.access.users import read_users

log = logging.getLogger("headwater.walsender")


class LiveAccess:
    """Access by some files.

    Args:
        files: they; version: of the server that is stood for.

    Raises:
        AccessError: one cannot be used, or does not fit the others.
    """

    def __init__(self, files: AccessFiles, version: Version) -> None:
        self._files, self._version = files, version
        self._stamp = self._users_stamp()
        self._loaded = files.load(version)

    def reload(self) -> None:
        """Load all files again; those that cannot be used leave all as it was."""
        log.info("received SIGHUP, reloading configuration files")
        self._stamp = self._users_stamp()
        try:
            self._loaded = self._files.load(self._version)
        except AccessError as error:
            log.error("%s; files of access were not reloaded", error.one_line())

    def current(self) -> LoadedAccess:
        """Return what is loaded, with the users that their file has now."""
        stamp = self._users_stamp()
        if stamp != self._stamp and self._files.users is not None:
            self._stamp = stamp
            try:
                users = read_users(self._files.users)
                self._loaded = replace(self._loaded, access=replace(self._loaded.access, users=users))
                log.info("the file of users has changed, reloaded it")
            except AccessError as error:
                log.error("%s; the file of users was not reloaded", error.one_line())
        return self._loaded

    def _users_stamp(self) -> tuple[int, int, int] | None:
        """Return what changes when the file of users is written; None where there is none."""
        if self._files.users is None:
            return None
        try:
            status = os.stat(self._files.users)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size
