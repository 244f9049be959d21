"""Changes as rows instead of messages: what takes a plugin's place for DataFrames and landing."""

from __future__ import annotations
