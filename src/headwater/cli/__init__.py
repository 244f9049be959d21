"""Commands: words and flags in, calls of the rooms before, messages and exit codes out.

Results go to standard output, everything else to standard error. This room must not know any format; it is the only
one that prints.
"""
