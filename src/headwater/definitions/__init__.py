"""What objects of the catalog are made of, what a transaction changed of them, and the SQL that repeats it.

In: views of the catalog as of before and behind a commit, and the keys of the rows that the commit touched. Out: events
with the definition before and behind, and statements. Must not know: WAL, windows, plugins, Spark.
"""
