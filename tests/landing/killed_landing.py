"""The program that kills itself at a step of landing."""

from __future__ import annotations

from pathlib import Path

DRIVER = Path(__file__).with_name("land_driver.py")
MOST_STEPS = 40
"""That one run does before it is killed; all of the work has some hundreds."""

NEVER = 1 << 40
