"""The mark of methods that override others, until ``typing`` has it in every Python that Headwater runs on (3.12).

What a method is given, but needs not, is not reported where the method it overrides says what is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method: Any) -> Any:
        """Return the method."""
        return method


__all__ = ["override"]
