"""The places of the messages of ``headwater decode``: streams, files, directories."""

from __future__ import annotations
