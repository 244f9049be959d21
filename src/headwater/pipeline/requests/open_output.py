"""One output of a run, opened: what is made of the windows of one database."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.pipeline.requests.open_request import OpenRequest
from headwater.pipeline.requests.scope import Scope
from headwater.plugins.api import SlicePlugin


def scope_of(opened: OpenRequest) -> Scope:
    """Return the transactions that a request asks for."""
    request = opened.request
    return Scope(opened.directory.segment_size, request.start or 0, request.tables)


@dataclass(frozen=True)
class OpenOutput:
    """An output.

    Attributes:
        opened: its request; what this has of the run, such as the catalog, outputs of one database share.
        scope: which transactions are wanted.
    """

    opened: OpenRequest
    scope: Scope

    @property
    def name(self) -> str | None:
        """The output's name in errors; None if it is the only one."""
        return self.opened.request.output

    @property
    def asked(self) -> str:
        """The output's description: see :attr:`headwater.reorder.commits.state.OutputState.asked`."""
        return self.opened.request.asked

    @property
    def plugin(self) -> SlicePlugin:
        """The plugin that the output is for."""
        return self.opened.plugin
