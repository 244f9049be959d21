"""Flags of ``headwater apply``, by subject."""
