"""Heap tuples into values.

In: a decode slice's bytes, its items (changes in output order) and the relations as they were. Out: cells, the text of
every attribute as the server's output functions print it (or as its send functions make it), or Arrow columns made of
them.

Must not know: transactions beyond an item's index, output plugins, files, Spark.
"""

from __future__ import annotations
