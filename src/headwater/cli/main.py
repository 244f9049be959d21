"""The command ``headwater`` (``headwater --help`` is the reference).

Exit status 0 done, 1 failed with one line ``headwater: ...``, 2 bad usage, 3 done but for tables that are paused,
or for what a dry run of ``apply`` has found.
Tracebacks are shown where the environment variable ``HEADWATER_TRACEBACK`` is set. A warning is a line of standard
error, ``headwater: warning: ...``. A signal ends it cleanly (:mod:`headwater.cli.process.signals`).
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import click

from headwater.base.system_errors import reason_of
from headwater.cli.commands import cli
from headwater.cli.process.setup import STANDARD_OUTPUT, forget, prepare_process, say
from headwater.cli.process.signals import ending_cleanly
from headwater.errors import HeadwaterError, HeadwaterWarning


def main() -> None:
    """Run the command."""
    # What is imported is no garbage: looking for some in it again and again takes a tenth of a short command's time.
    gc.set_threshold(20_000, 20, 20)
    # What is left then goes with the process: the interpreter would first look at all of it, for a third of a second.
    atexit.register(gc.freeze)
    prepare_process()
    # Py4J logs the tracebacks of calls that were interrupted; what matters of them arrives here as an exception.
    logging.getLogger().addHandler(logging.NullHandler())
    _warn_in_one_line()
    try:
        with ending_cleanly():
            cli.main(standalone_mode=False)
    except HeadwaterError as error:
        _show_traceback()
        _fail(error.one_line(), error.exit_code, error.details())
    except click.UsageError as error:
        context = f" (see '{error.ctx.command_path} --help')" if error.ctx is not None else ""
        _fail(error.format_message() + context, 2)
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", 130)
    except BrokenPipeError:
        forget(STANDARD_OUTPUT)
        sys.exit(1)
    except OSError as error:
        forget(STANDARD_OUTPUT)
        _fail(_reason(error), 1)
    except Exception as error:
        from headwater.jobs.unforeseen import unforeseen

        _show_traceback()
        _fail(unforeseen("the command", error).one_line(), 1)


def _show_traceback() -> None:
    """Show where the error that is handled came from, before its one line, if the user asks for that."""
    if os.environ.get("HEADWATER_TRACEBACK"):
        traceback.print_exc()


def _reason(error: OSError) -> str:
    """Say what failed that nobody foresaw."""
    try:
        os.getcwd()
    except OSError:
        return "the current directory is not there any more; change to another one"
    return reason_of(error) + (f": {error.filename}" if error.filename else "")


def _warn_in_one_line() -> None:
    """Show Headwater's warnings as ``headwater: warning: ...``; others as Python shows them."""
    show = warnings.showwarning

    def show_ours(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, HeadwaterWarning):
            say("headwater: warning: " + " ".join(str(message).split()))
        else:
            show(message, category, *place, **more)

    warnings.showwarning = show_ours


def _fail(message: str, status: int, details: Sequence[str] = ()) -> None:
    say("\n".join(["headwater: " + " ".join(message.split()), *details]))
    sys.exit(status)


if __name__ == "__main__":
    main()
