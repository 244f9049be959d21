"""Conflicts between what comes and what the target's own users, or other origins, have written."""
