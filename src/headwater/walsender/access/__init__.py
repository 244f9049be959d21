"""Access to a service that clients of PostgreSQL connect to: who may, from where, and how they prove it.

Files of users and of host rules, certificates and the peer of a connection come in; a user who is let in, with the
messages of the protocol that are to be sent, or a SessionError goes out. This room must not know what is served.
"""
