"""A file for each resource manager: record in, event or index row out.

In: framed records. Out: dataclasses of their payloads, records in the server's words
(:mod:`headwater.rmgr.description`), and the index of a run of WAL. Every resource manager and info code is listed
(:mod:`headwater.rmgr.registry`); an unknown one is an error with its LSN. Nothing here knows what a record means for a
transaction or the catalog.
"""
