"""The walsender: stock clients of replication connect to it as to a server, and are sent what is decoded here.

In: WAL at hand, a catalog, a directory of slots; connections. Out: the server's messages. One event loop has the
sockets and the timers. Decoding runs in threads, and never in the loop. This room prints nothing; it logs.
"""
