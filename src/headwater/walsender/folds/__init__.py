"""Decoding once for many: subscribers of a database that stand at one place share the fold, equal ones the messages.

In: what sessions ask, and the states where they begin. Out: for each a queue of bounded size, of messages that are
ready to be sent and of states that were reached. A fold is a thread; sessions of one place in the log are in one fold.
One that lags leaves it, goes on in a fold of its own, and joins again where both stand. This room knows no sockets.
"""
