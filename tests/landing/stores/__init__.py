"""Landing to stores."""
