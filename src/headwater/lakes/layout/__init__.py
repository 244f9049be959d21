"""The layout of a table's rows in its files: which rows share a file, and in which order they stand there.

In: partitions and sort orders as settings write them, rows. Out: rows apart by partitions, each in its order, with the
texts that name the partition. Must not know: formats, files, the source's catalog.
"""

from __future__ import annotations
