"""What the configuration file says beyond flags.

In: parsed TOML. Out: values of other rooms. Must not know: commands.
"""

from __future__ import annotations
