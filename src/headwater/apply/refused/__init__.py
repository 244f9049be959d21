"""Changes that the target refuses, or that are not to be applied: skipped, put aside as dead letters, kept for later.

In: what the serial applier is about to do, and errors of it. Out: whether it does it, and statements that go into the
same transaction. Unknown here: where the changes come from, and how they are applied.
"""

from __future__ import annotations
