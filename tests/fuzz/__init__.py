"""Mutated inputs, in bulk: whatever the bytes are, headwater answers, or says in an error of its own why not.

``make fuzz`` runs a million of them, ``test_fuzz.py`` a short form. A real server writes the files
(:mod:`fuzz.corpus`); kinds of input (:mod:`fuzz.kinds`) mutate a part of them and hand it to the code that reads it, in
the same process, with no Spark. Workers can crash, hang or grow; the process that started them watches them
(:mod:`fuzz.workers`, :mod:`fuzz.run`).
"""

from __future__ import annotations
