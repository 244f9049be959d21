"""Pages framed into records, and verified.

In: segments. Out: frames, flat tables of where records lie, and single records.
"""

from __future__ import annotations
