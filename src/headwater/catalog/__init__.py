"""The catalog as it was at an LSN: read from a backup's heap files, rolled forward by the WAL of the catalogs.

In: catalog heap pages and catalog records, or an image that a store made of itself. Out: immutable descriptions of
relations, types and publications (:mod:`headwater.catalog.relation`) as of a position, and images. This room must not
know how transactions are queued or published.
"""
