"""Landing to catalogs of Iceberg: REST, PostgreSQL, Glue; what of them is a server runs here."""
