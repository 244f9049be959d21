"""The layer of SQL that a real server of the same major answers.

In: statements of sessions, through :mod:`headwater.walsender.elsewhere`. Out: what a standby of the catalogs answers.
It must not know how clients speak.
"""

from __future__ import annotations
