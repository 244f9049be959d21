"""A service under load for long: subscribers of all kinds, kills, and memory that does not grow (``make soak``)."""
