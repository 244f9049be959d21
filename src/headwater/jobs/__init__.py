"""Jobs: work that is cut into tasks, handed out, and whose results are taken in the order of the tasks.

In: an engine, which runs the tasks. Out: files and small values that they made. Two engines exist: this process
(:mod:`headwater.jobs.local_engine`), and Spark, in a room of its own. This room knows neither Spark nor PostgreSQL.
"""
