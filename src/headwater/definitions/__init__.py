"""Definitions of the catalog's objects, the changes that a transaction made to them, and the SQL that repeats these.

In: views of the catalog as of before and after a commit, and the keys of the rows that the commit touched. Out: events
with the definitions before and after, and statements. Must not know: WAL, windows, plugins, Spark.
"""
