"""The catalog as versions of its rows, rolled forward from the WAL, and its image between windows.

In: a copy's files, then records of the catalogs. Out: views of the catalog as of any LSN.
"""

from __future__ import annotations
