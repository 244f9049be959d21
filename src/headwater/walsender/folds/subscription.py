"""The folds of a service, and what a session has of them: a subscription, which a stream takes its items from.

Calls come from the event loop and from threads that sessions wait for; opening and stopping take their time.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import astuple

from headwater.errors import HeadwaterError
from headwater.jobs.unforeseen import unforeseen
from headwater.pipeline.requests.request import DecodeRequest
from headwater.slots.kept_state import KeptState
from headwater.wal.segments.place import WalSource
from headwater.walsender.folds.bulk import Bulk
from headwater.walsender.folds.faults import Faults
from headwater.walsender.folds.fold_windows import ServedWal, look_from
from headwater.walsender.folds.member import Member
from headwater.walsender.folds.outbox import Outbox
from headwater.walsender.folds.places import Places
from headwater.walsender.folds.shared_fold import Counts, SharedFold, Surroundings
from headwater.walsender.folds.shared_output import SharedOutput
from headwater.walsender.folds.shelf import Shelf

log = logging.getLogger("headwater.walsender")


class Subscription:
    """A session's subscription.

    Args:
        around: the surroundings of its database's folds.
        output: it alone; kept_state: the state where it begins, None for the catalog.
        member: its part in a fold.
        bulk: an engine by which it catches up if it is far behind; None without one.
    """

    def __init__(
        self,
        around: Surroundings,
        output: SharedOutput,
        kept_state: KeptState | None,
        member: Member,
        bulk: Bulk | None = None,
    ) -> None:
        self._around, self._member, self._bulk = around, member, bulk
        alone_until = around.faults.until(output.request)
        self._begin: SharedFold | None = SharedFold(around, [output], kept_state, alone_until)
        self.take = member.outbox.take

    def start(self) -> None:
        """Begin to decode."""
        fold, self._begin = self._begin, None
        assert fold is not None
        if self._bulk is None:
            fold.start()
            return
        self._member.entered()
        threading.Thread(target=self._catch_up, args=(fold, self._bulk), name="walsender-bulk", daemon=True).start()

    def _catch_up(self, fold: SharedFold, bulk: Bulk) -> None:
        """Let an engine decode first what it may; then the fold goes on."""
        (output,) = fold.outputs
        try:
            reached = bulk.catch_up(self._around.wal, output.request, fold.kept, self._member)
            if self._member.is_stopped:
                self._member.left()
            elif reached is fold.kept or reached is None:
                fold.start()
            else:
                (state,) = reached.state.outputs
                further = SharedOutput(output.request, reached.server_settings, [self._member], state)
                SharedFold(self._around, [further], reached, fold.alone_until).start()
        except HeadwaterError as error:
            self._member.fail(error)
        except Exception as error:
            self._member.fail(unforeseen("decoding", error))

    def stop(self) -> None:
        """End decoding as soon as may be; call from another thread than the loop's, as it waits for that."""
        counts, most = self._around.counts, self._member.outbox.most
        log.debug("a subscriber leaves, for whom at most %d bytes of messages have waited", most)
        log.debug("messages: %d made, %d given; %d joined, %d detached", *astuple(counts))
        self._member.stop()
        self._around.places.wake_all()
        self._member.wait()

    def look_again(self) -> None:
        """Let what is there now be decoded before it counts as all."""
        self._member.outbox.expect_more()
        self._around.places.wake_all()

    @property
    def is_drained(self) -> bool:
        """Whether all WAL that is there has been decoded and taken."""
        return self._member.outbox.is_drained

    @property
    def has_items(self) -> bool:
        """Whether something can be taken."""
        return self._member.outbox.has_items


class Folds:
    """The folds of a service.

    Args:
        wal: that is served; source: where it comes to.
        shelves: of states, by the database's name; catalog: that they are of.
        bulk: an engine for sessions that are far behind; None without one.

    Attributes:
        counts: of all folds.
    """

    def __init__(
        self,
        wal: ServedWal,
        source: WalSource,
        shelves: Mapping[str, Shelf],
        catalog: str,
        bulk: Bulk | None = None,
    ) -> None:
        self.counts, self._faults, self._bulk = Counts(), Faults(), bulk
        self._wal, self._source, self._catalog = wal, source, os.path.abspath(catalog)
        self._around: dict[str, Surroundings] = {}
        for name, shelf in shelves.items():
            self.meet(name, shelf)

    def meet(self, database: str, shelf: Shelf) -> None:
        """Take a database that is served from now on, unless it is here."""
        around = Surroundings(self._wal, self._source, Places(), shelf, self.counts, self._faults, self._catalog)
        self._around.setdefault(database, around)

    def subscription(
        self, request: DecodeRequest, kept_state: KeptState | None, wake: Callable[[], None]
    ) -> Subscription:
        """Open a subscription.

        Args:
            request: what is decoded; its start is where the session begins.
            kept_state: where decoding begins, None for the catalog.
            wake: called when there is something to take, from another thread.

        Raises:
            HeadwaterError: the plugin, one of its options or a setting is refused, or WAL is missing.
        """
        assert request.database is not None
        around, member = self._around[request.database], Member(Outbox(wake))
        output = SharedOutput(request, () if kept_state is None else kept_state.server_settings, [member])
        output.open(kept_state, look_from(around.wal, kept_state).directory)
        return Subscription(around, output, kept_state, member, self._bulk)
