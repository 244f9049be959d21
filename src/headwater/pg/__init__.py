"""The facts that PostgreSQL fixes: LSNs, constants, struct layouts per major version.

In: nothing. Out: names and numbers. This room must not know how Headwater reads, stores or publishes anything.
"""
