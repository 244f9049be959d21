"""The side of a service that its operator sees and sets: what sessions are doing, how far they lag, the log, limits.

In: what sessions report. Out: values to show, and lines of the log. Knows neither sockets nor slots.
"""
