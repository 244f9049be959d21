"""A layout that keeps Java's stacks out of what Spark logs of our own errors.

Spark logs a task that fails once or more for each attempt, with the stack of the Java thread that waited for Python:
forty lines that say nothing of the WAL. Log4j has no filter that looks at an exception, but a layout can replace
text. So Spark's default layout is extended: where an exception of Python is one of ours, the log entry ends with its
line. All else is logged as before, and a layout that is not Spark's default one is left alone.

Known gap: executors of a cluster log in processes of their own, which a session cannot reach.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

_PLACE, _TEXT = "%d{yy/MM/dd HH:mm:ss} %p %c{1}: ", "%m%n%ex"
_OURS = r"(PythonException: [^\n]*(?:headwater\.errors\.\w+: |ImportError: headwater )[^\n]*\n)(?s:.*)"
SPARK_LAYOUT = _PLACE + _TEXT
SHORT_LAYOUT = f"{_PLACE}%replace{{{_TEXT}}}{{{_OURS}}}{{$1}}"
_CORE = "org.apache.logging.log4j.core"


def shorten_failures(context: SparkContext) -> None:
    """Change the layout of the session's console log, if it is Spark's own.

    Args:
        context: of a session whose Java process this process talks to.
    """
    jvm: Any = context._jvm
    try:
        root = jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
        for appender in list(root.getAppenders().values()):
            if _is_default(appender):
                _replace(jvm, root, appender)
    except (Py4JError, TypeError):
        return  # Another logging library: then its lines stay long.


def _is_default(appender: Any) -> bool:
    if appender.getClass().getName() != f"{_CORE}.appender.ConsoleAppender":
        return False
    layout = appender.getLayout()
    is_pattern = layout.getClass().getName() == f"{_CORE}.layout.PatternLayout"
    return is_pattern and str(layout.getConversionPattern()) == SPARK_LAYOUT


def _replace(jvm: Any, root: Any, appender: Any) -> None:
    """Put an appender in the place of another that differs in the layout only."""
    core = jvm.org.apache.logging.log4j.core
    layout = core.layout.PatternLayout.newBuilder().withPattern(SHORT_LAYOUT).build()
    builder = core.appender.ConsoleAppender.newBuilder().setName(appender.getName()).setTarget(appender.getTarget())
    short = builder.setFilter(appender.getFilter()).setLayout(layout).build()
    short.start()
    references = [reference for reference in root.getAppenderRefs() if reference.getRef() == appender.getName()]
    level = references[0].getLevel() if references else None
    root.removeAppender(appender.getName())
    root.addAppender(short, level, None)
