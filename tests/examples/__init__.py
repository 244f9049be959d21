"""The examples."""
