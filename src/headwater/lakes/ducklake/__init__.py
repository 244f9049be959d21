"""DuckLake's catalog: tables of an SQL database that say what tables, columns and files there are, and since when.

In: what a commit brings, in plain values. Out: rows of DuckLake's tables, format 1.0
(https://ducklake.select/docs/stable/specification/introduction), in SQLite or PostgreSQL; and its delete files. Nothing
here knows of landing.
"""
