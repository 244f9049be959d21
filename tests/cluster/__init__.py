"""A Spark cluster of several machines."""
