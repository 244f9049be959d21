"""The entries of the configuration file that no flag has.

In: parsed TOML. Out: values of other rooms. Must not know: commands.
"""

from __future__ import annotations
