"""Files of a target in a directory of this machine, or in a store; one small interface to both.

In: names and bytes. Out: files that are whole or not there, written on the condition that nobody else has written them
meanwhile. Must not know: tables, formats, how far something has come.
"""

from __future__ import annotations
