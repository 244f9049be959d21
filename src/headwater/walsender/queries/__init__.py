"""SELECT of functions and views that are answered here, on any connection: parsed, typed, evaluated.

In: a text, the functions and the views that a session has. Out: statements with the types of their parameters and
columns, and their rows as values, which are sent as text or in binary form. What a statement asks beyond that is told
apart from what is wrong: another layer may answer it.
Must not know: sockets, sessions, slots.
"""

from __future__ import annotations
