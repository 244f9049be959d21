"""Catalogs of Iceberg tables: commits to them, together where a catalog can, and what became of one that is in doubt.

In: commits whose files are written. Out: they are made, once, or an error of the library. Must not know: what tables
hold, where a target is, or how far it has come.
"""
