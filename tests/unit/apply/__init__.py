"""Apply: its parts that need no server."""
