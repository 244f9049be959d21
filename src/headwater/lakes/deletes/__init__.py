"""Rows of tables' files that are deleted beside the files: which they are, and how formats keep that.

In: positions of rows in files. Out: bitmaps or delete files of them, and commits of Delta's log
and snapshots of Iceberg that name them. Nothing here knows of tables, or of what their rows are.
"""
