"""Output plugins whose messages a kernel writes: the way from a slice's tables to its messages, alike for all of them.

A slice is rendered in two steps: a plan says which messages there are, the plugin's kernel writes them. Here the plan
is made; a plugin adds its kernel, and what the kernel has to know of the slice's relations.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headwater.base.overrides import override
from headwater.plugins._plan import Plan, Ready
from headwater.plugins.api import SlicePlugin, SliceTables
from headwater.plugins.conditions import find_conditions
from headwater.plugins.message_buffer import Rendering, make_plan, make_ready, settled
from headwater.reorder.unit_flags import STREAMED
from headwater.rows.items import Literals, Messages


class KernelPlugin(SlicePlugin):
    """Base of the plugins that render a slice with a kernel.

    Attributes:
        needs_tuples: a change without its tuple gives no message.
        has_boundaries: transactions begin and end with a message.
        sends_origins: what :meth:`origin` says are messages; else its kernel finds it by its transactions.
    """

    needs_tuples: ClassVar[bool]
    has_boundaries: bool = True
    sends_origins: bool = True

    @override
    def render(self, tables: SliceTables) -> Messages:
        rendering = self.rendering(tables)
        messages = rendering.messages()
        if not (tables.transactions.flags & STREAMED).any():
            return messages
        return replace(messages, xid=tables.transactions.xid[rendering.plan.txn].astype(np.int64))

    def rendering(self, tables: SliceTables) -> Rendering:
        """Get a slice ready to be written.

        Raises:
            PluginError: a layout cannot be sent as its schema messages say.
        """
        traits = self.traits
        items, cells, transactions = settled(tables.items), settled(tables.cells), settled(tables.transactions)
        tables = tables._replace(items=items, cells=cells, transactions=transactions)
        announced = tables.schema_messages if traits.sends_schema else [()] * len(tables.schemas)
        ready = make_ready(tables.literals, announced, self.brings_begin(tables.literals))
        rules = (
            traits.skips_empty,
            self.needs_tuples,
            self.has_boundaries,
            self.sends_origins,
            traits.skips_empty and traits.puts_off_streams,
        )
        plan = make_plan(items, cells, transactions, ready, rules)
        rendering = self.writer(tables, ready, plan)
        conditions = find_conditions(tables, ready, rendering.plan, traits.skips_empty, self.sends_origins)
        return replace(rendering, conditions=conditions)

    def brings_begin(self, literals: Literals) -> NDArray[np.uint8]:
        """Tell which of l literals bring forth the BEGIN that was put off, uint8[l]: all of them."""
        return np.ones(len(literals.first) - 1, np.uint8)

    @abstractmethod
    def writer(self, tables: SliceTables, ready: Ready, plan: Plan) -> Rendering:
        """Join the plan with the plugin's kernel, and the bytes that will probably do.

        Args:
            tables: the slice.
            ready: its ready-made messages.
            plan: its messages.

        Raises:
            PluginError: a layout cannot be sent as its schema messages say.
        """
