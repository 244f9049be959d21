"""Changes into messages.

In: items, cells, transactions and literals of a decode slice, relations and publications as they were. Out: the
messages that the server's output plugins would write, byte for byte.

Must not know: WAL records, heap tuples, files, sockets, Spark.
"""

from __future__ import annotations
