"""Format 3 of Iceberg, as far as pyiceberg does not write it: metadata, manifests, and numbers of rows.

In: metadata and entries of pyiceberg's. Out: the same, as the specification has them in format 3. Must not know: what
tables hold, which files are rewritten, or where a target is.
"""
