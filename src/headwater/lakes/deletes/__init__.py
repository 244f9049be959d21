"""Rows of tables' files that are deleted beside the files: which they are, and how formats keep that.

In: positions of rows in files. Out: bitmaps of them in the log or in files of their own, and commits of Delta's log
that name them. Nothing here knows of tables, or of what their rows are.
"""
