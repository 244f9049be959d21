"""Headwater: PostgreSQL's logical decoding outside the server, as a Spark pipeline.

The names in ``__all__`` are the public API, with the errors of :mod:`headwater.errors`; each is imported when it is
first used. Everything else is internal, and may change with any release. The rooms below this package stand in the
order of the data flow; each imports only rooms before it (``docs/architecture.md``, ``tests/unit/test_rooms.py``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.jobs.engine import Engine
    from headwater.jobs.local_engine import LocalEngine
    from headwater.lakes.as_of_view import TableView, read_as_of
    from headwater.lakes.landing_target import LandingTarget
    from headwater.lakes.parquet_table import read_parquet_table
    from headwater.lakes.settings.table_settings import TableSettings
    from headwater.lakes.stores.places import place_of
    from headwater.landing.landing import land
    from headwater.landing.landing_pass import LandingResult
    from headwater.pipeline.decode import RunSettings, decode, decode_outputs
    from headwater.pipeline.outputs import Decoded, DecodeResult, Output
    from headwater.pipeline.requests.request import DecodeRequest
    from headwater.pipeline.requests.slot_request import kept_in_slot, request_of_slot
    from headwater.pipeline.slices.message_files import MessageForm
    from headwater.pipeline.windows.databases import DatabaseChoice
    from headwater.pipeline.windows.run_index import WindowBounds
    from headwater.plugins.callbacks.output_plugin import (
        UNCHANGED_TOAST,
        Change,
        Column,
        Context,
        OutputPlugin,
        Relation,
        Row,
        Transaction,
        Truncate,
    )
    from headwater.rows.extension_types import AddedType
    from headwater.slots.kept_state import KeptState
    from headwater.slots.slot import Slot
    from headwater.slots.slot_directory import open_slot, read_slot
    from headwater.source.stream_metrics import StreamMetrics

__version__ = "0.1.0"

_PLACES = {
    "headwater.jobs.engine": ("Engine",),
    "headwater.jobs.local_engine": ("LocalEngine",),
    "headwater.lakes.as_of_view": ("TableView", "read_as_of"),
    "headwater.lakes.landing_target": ("LandingTarget",),
    "headwater.lakes.parquet_table": ("read_parquet_table",),
    "headwater.lakes.settings.table_settings": ("TableSettings",),
    "headwater.lakes.stores.places": ("place_of",),
    "headwater.pipeline.windows.databases": ("DatabaseChoice",),
    "headwater.pipeline.decode": ("RunSettings", "decode", "decode_outputs"),
    "headwater.pipeline.slices.message_files": ("MessageForm",),
    "headwater.pipeline.outputs": ("DecodeResult", "Decoded", "Output"),
    "headwater.pipeline.requests.request": ("DecodeRequest",),
    "headwater.pipeline.windows.run_index": ("WindowBounds",),
    "headwater.pipeline.requests.slot_request": ("kept_in_slot", "request_of_slot"),
    "headwater.source.stream_metrics": ("StreamMetrics",),
    "headwater.plugins.callbacks.output_plugin": (
        *("UNCHANGED_TOAST", "Change", "Column", "Context", "OutputPlugin"),
        *("Relation", "Row", "Transaction", "Truncate"),
    ),
    "headwater.rows.extension_types": ("AddedType",),
    "headwater.landing.landing": ("land",),
    "headwater.landing.landing_pass": ("LandingResult",),
    "headwater.slots.kept_state": ("KeptState",),
    "headwater.slots.slot": ("Slot",),
    "headwater.slots.slot_directory": ("open_slot", "read_slot"),
}
"""Modules of the public names."""

_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "UNCHANGED_TOAST",
    "AddedType",
    "Change",
    "Column",
    "Context",
    "DatabaseChoice",
    "DecodeRequest",
    "DecodeResult",
    "Decoded",
    "Engine",
    "KeptState",
    "LandingResult",
    "LandingTarget",
    "LocalEngine",
    "MessageForm",
    "Output",
    "OutputPlugin",
    "Relation",
    "Row",
    "RunSettings",
    "Slot",
    "StreamMetrics",
    "TableSettings",
    "TableView",
    "Transaction",
    "Truncate",
    "WindowBounds",
    "__version__",
    "decode",
    "decode_outputs",
    "kept_in_slot",
    "land",
    "open_slot",
    "place_of",
    "read_as_of",
    "read_parquet_table",
    "read_slot",
    "register",
    "request_of_slot",
]


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("headwater")`` work in a session, whichever Python Spark would ask by itself.

    Once for each session, at any time; more often does no harm. Planning and tasks run the interpreter of this process;
    on a cluster the one that ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` names, if one is named.

    Args:
        spark: the session.
    """
    from headwater.source.registration import register_source

    register_source(spark)
