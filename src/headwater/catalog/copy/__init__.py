"""The files of a cluster's copy: a data directory, a base backup, as directories or archives.

In: an address. Out: control file, heap files, commit status, settings, prepared transactions.
"""

from __future__ import annotations
