"""``python -m subscription``."""

from __future__ import annotations

import sys

from subscription.run import main

sys.exit(main())
