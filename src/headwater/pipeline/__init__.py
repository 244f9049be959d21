"""The five steps on Spark: index, assemble, plan, decode, deliver.

In: a decode request. Out: messages or change rows, in files of the tasks' own or as DataFrames. This is the room that
knows Spark, files and all rooms before it; it must not know PostgreSQL's formats.
"""

from __future__ import annotations

from headwater.pipeline.databases import DatabaseChoice
from headwater.pipeline.decode import decode, decode_outputs
from headwater.pipeline.outputs import Decoded, DecodeResult, Output
from headwater.pipeline.request import DecodeRequest

__all__ = ["DatabaseChoice", "DecodeRequest", "DecodeResult", "Decoded", "Output", "decode", "decode_outputs"]
