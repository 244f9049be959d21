"""Other programs that decode the same WAL, run beside Headwater: what they are made of, and how events are compared."""
