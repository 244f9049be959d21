"""A command's process: its streams, the signals that end it, its progress on standard error, its metrics.

Imports the rooms of the pipeline that it shows, and no command.
"""
