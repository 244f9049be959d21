"""The log of the sessions: which of them a line is of, and errors as the server's log has them.

A line is made by :class:`LogLines`, with PostgreSQL's default prefix ``%m [%p]`` and its words for how bad it is. The
texts of statements are in the log where the server has them; passwords and verifiers never come here.

PostgreSQL: log_line_prefix, send_message_to_server_log (elog.c).
"""

from __future__ import annotations

import logging
import os
import time
from contextvars import ContextVar

from headwater.protocol.backend_messages import Report

log = logging.getLogger("headwater.walsender")

PID: ContextVar[int] = ContextVar("PID")
"""The number of the session whose coroutine or thread runs; without one it is the service's own."""

_WORDS = {logging.DEBUG: "DEBUG", logging.INFO: "LOG", logging.WARNING: "WARNING", logging.ERROR: "ERROR"}


def log_report(report: Report, statement: str | None = None) -> None:
    """Log an error that a client is told of.

    Args:
        report: what it is told; statement: what had the client sent; None where that is nothing to be shown.
    """
    parts = {"DETAIL": report.detail, "HINT": report.hint, "CONTEXT": report.context, "STATEMENT": statement}
    more = tuple((name, text) for name, text in parts.items() if text)
    level = logging.CRITICAL if report.severity == "FATAL" else logging.ERROR
    log.log(level, "%s", report.message, extra={"parts": more})


class LogLines(logging.Formatter):
    """The form of lines: ``2026-01-31 12:00:00.123 UTC [1001] LOG:  text``; what follows a line's first is indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        seconds = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.created))
        prefix = f"{seconds}.{int(record.msecs):03} UTC [{PID.get(os.getpid())}] "
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        parts = [(_WORDS.get(record.levelno, "FATAL"), text), *getattr(record, "parts", ())]
        return "\n".join(f"{prefix}{word}:  " + text.replace("\n", "\n\t") for word, text in parts)
