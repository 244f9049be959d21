"""Logical slots of running servers, as sources of changes where their WAL is not to be had.

In: a server's address with a slot in it. Out: whole transactions in commit order, as slices of changes whose values are
text, which rows and tables are made of as of any slice (``pipeline/slices/``). Must not know: lakes, Spark.
"""
