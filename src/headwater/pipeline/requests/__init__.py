"""Requests of users, checked and opened.

In: names, options, addresses. Out: requests whose files fit each other, with a plugin and the settings of a session.
"""

from __future__ import annotations
