"""The source of ``headwater decode``, and where it begins: at a catalog, a kept state, or where a slot stands.

A slot has one output, which it knows since it was created.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from headwater.cli.decode_flags import DecodeFlags
from headwater.cli.shared_flags import parsed_lsn
from headwater.errors import UsageError, warn
from headwater.pipeline.outputs import Decoded
from headwater.pipeline.requests.named_catalog import is_server, state_in_file, state_of_server
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.requests.request_checks import check_begins, check_no_user
from headwater.pipeline.requests.slot_request import kept_in_slot, request_of_slot
from headwater.pipeline.windows.databases import DatabaseChoice, check_whole_cluster, may_be_created
from headwater.plugins.rows.plugin import RowChanges
from headwater.plugins.table_patterns import TablePatterns
from headwater.reorder.commits.state import State
from headwater.rows.session import SERVER_VERSION
from headwater.slots.kept_state import KeptState, find_state
from headwater.slots.slot import Slot, SlotStatistics
from headwater.slots.slot_directory import OpenSlot, open_slot

DEFAULT_PLUGIN = "test_decoding"
SEE_HELP = "(see 'headwater decode --help')"


@dataclass
class DecodeSource:
    """The source of messages.

    Attributes:
        requests: the request of each output.
        kept: the state to begin with; None for the catalog.
        slot: the slot that advances, None if none does.
        choice: the databases, if they are not the one that the requests name.
    """

    requests: list[DecodeRequest]
    kept: KeptState | None = None
    slot: OpenSlot | None = None
    choice: DatabaseChoice | None = None
    _reached: tuple[State, SlotStatistics] | None = field(default=None, repr=False)

    def delivered(self, decoded: Decoded, out: str) -> None:
        """Note that all messages are written; a slot whose output is not moved to its place later advances here."""
        if self.slot is None:
            return
        ((result,),) = decoded.databases.values()
        statistics = SlotStatistics(1, result.transactions, result.bytes, result.changes, result.messages)
        self._reached = result.state(), statistics
        if self.placing(out) is None:
            self.slot.write(self.slot.slot.advanced(*self._reached))

    def is_delivered(self, out: str) -> bool:
        """Find out whether output of an earlier call that was killed has taken its place just now, and is this one's.

        Then this call is that one tried again: what it asked for is there.
        """
        place = None if self.slot is None else self.slot.settled
        if place is None:
            return False
        is_own = out != "-" and place == os.path.realpath(out)
        goes_on = "nothing more is decoded" if is_own else "decoding goes on behind it"
        warn(f"output of an earlier call, which did not come to its end, has taken its place: {place}; {goes_on}")
        return is_own

    def placing(self, out: str) -> Callable[[Path, Path], None] | None:
        """Return a function that moves a file to its place; None where the slot has no part in it."""
        is_file = out != "-" and not (os.path.exists(out) and not os.path.isfile(out))
        return self._place if self.slot is not None and is_file else None

    def _place(self, part: Path, out: Path) -> None:
        assert self.slot is not None
        assert self._reached is not None
        waiting = self.slot.part_of(out)
        os.replace(part, waiting)
        self.slot.place(waiting, out, *self._reached)


@contextmanager
def decode_source(flags: DecodeFlags) -> Iterator[DecodeSource]:
    """Read what flags name; a slot is this process's until the end of the ``with`` block.

    Raises:
        UsageError: flags contradict each other, or one is missing.
        SlotError: the slot or state cannot be used.
    """
    if flags.slot is None:
        yield _without_slot(flags)
        return
    _check_slot_flags(flags)
    with open_slot(Path(flags.slot)) as opened:
        if opened.slot.request.plugin == RowChanges.name:
            raise UsageError(
                f"the slot {Path(flags.slot).name} is for rows, which the command does not write",
                hint="read it with spark.readStream, or copy it with --plugin",
            )
        _check_options(opened.slot, Path(flags.slot))
        if flags.server_version is not None:
            opened.slot = opened.slot.of_server(flags.server_version, SERVER_VERSION)
        source = source_of_slot(opened.slot, parsed_lsn(flags.end))
        (request,) = source.requests
        source.requests = [
            replace(
                request,
                wal=flags.log.source(request.source),
                on_level_gap=flags.on_level_gap,
                slot=Path(flags.slot).name,
            )
        ]
        source.slot = None if flags.peek else opened
        yield source


def _check_options(slot: Slot, path: Path) -> None:
    if slot.request.plugin == "pgoutput" and not slot.request.options:
        raise UsageError(
            f"the slot {path.name} was made without options, which a connection to headwater serve brings",
            hint=f"headwater slot copy {path} COPY --plugin pgoutput -o proto_version=1 -o publication_names=NAME",
        )


def check_kept_apart(out: str) -> None:
    """Refuse to replace a file that may be what a slot has delivered before: it is delivered once.

    Raises:
        UsageError: there is such a file.
    """
    if os.path.isfile(out) and os.path.getsize(out):
        raise UsageError(
            f'cannot write "{out}": it exists, and may be what an earlier call of the slot has delivered',
            hint="move it away, or choose another --out",
        )


def source_of_slot(slot: Slot, end: int | None) -> DecodeSource:
    """Return a slot's request, from where it stands."""
    request = replace(request_of_slot(slot), end=None if end is None else max(end, slot.confirmed_lsn))
    return DecodeSource([request], kept_in_slot(slot))


def _check_slot_flags(flags: DecodeFlags) -> None:
    output = flags.outputs[0]
    for values, names in (
        (flags, ("catalog", "from_state", "database", "all_databases", "start", "user", "from_replica_level")),
        (output, ("plugin",)),
        (output.session, ("options", "settings", "client_encoding")),
        (output, ("tables", "exclude", "publish", "unknown_types", "two_phase", "ddl")),
    ):
        for name in names:
            if getattr(values, name):
                flag = {"options": "-o", "settings": "--set"}.get(name, f"--{name.replace('_', '-')}")
                raise UsageError(f"{flag} cannot be given with --slot", hint="the slot has it since it was created")


def _several(flags: DecodeFlags) -> DatabaseChoice | None:
    """Return the databases, if flags ask for others than one by its name."""
    names = tuple(dict.fromkeys(flags.database))
    if flags.all_databases and names:
        raise UsageError("--all-databases takes the place of --database", hint="give one of them")
    if not flags.is_of_several:
        return None
    for flag, value in (("--from-state", flags.from_state), ("--keep-states", flags.keep_states), ("--ddl", flags.ddl)):
        if value:
            raise UsageError(f"{flag} is for one database", hint="name it with --database")
    return DatabaseChoice(None if flags.all_databases else names)


def _created_later(request: DecodeRequest, flags: DecodeFlags) -> DatabaseChoice | None:
    """Return a database that the catalog lacks, as it may be one that is created in the window."""
    name = request.database
    if name is None or is_server(request.catalog) or state_in_file(request.catalog) is not None:
        return None
    if not may_be_created(request):
        return None
    if flags.ddl:
        raise UsageError(f'--ddl is for a database that the catalog has, and it has no "{name}"')
    if flags.keep_states:
        raise UsageError(f'--keep-states is for a database that the catalog has, and it has no "{name}"')
    return DatabaseChoice((name,))


def _without_slot(flags: DecodeFlags) -> DecodeSource:
    if flags.peek:
        raise UsageError("--peek is for --slot")
    if not flags.log.wal:
        raise UsageError("Missing option '--wal'", hint=f"or name a slot with --slot {SEE_HELP}")
    if (flags.catalog is None) == (flags.from_state is None):
        what = "Missing option '--catalog'" if flags.catalog is None else "--from-state takes the place of --catalog"
        raise UsageError(what, hint=f"give one of --catalog, --from-state and --slot {SEE_HELP}")
    start = parsed_lsn(flags.start)
    choice = _several(flags)
    requests = _requests(flags, start, flags.database[0] if flags.database and choice is None else None)
    request = requests[0]
    if choice is not None:
        check_whole_cluster(request)
        return DecodeSource(requests, choice=choice)
    if flags.from_state is None:
        choice = _created_later(request, flags)
        if choice is not None:
            return DecodeSource([replace(request, database=None) for request in requests], choice=choice)
        of_server = state_of_server(request.catalog)
        if of_server is not None:
            check_no_user(request)
        return DecodeSource(requests, of_server)
    check_no_user(request)
    stored = find_state(Path(flags.from_state), start)
    check_begins(stored.state, request, flags.from_state)
    return DecodeSource(requests, replace(stored, state=stored.state.in_new_session))


def _requests(flags: DecodeFlags, start: int | None, database: str | None) -> list[DecodeRequest]:
    """Return the request of each output; one of several is named by where it goes."""
    run = DecodeRequest(
        wal=flags.log.source(),
        catalog=flags.catalog or "",
        database=database,
        start=start,
        end=parsed_lsn(flags.end),
        user=flags.user,
        on_level_gap=flags.on_level_gap,
        from_replica_level=flags.from_replica_level,
    )
    return [
        replace(
            run,
            plugin=output.plugin or DEFAULT_PLUGIN,
            options=output.session.plugin_options,
            settings=output.session.all_settings(flags.server_version),
            unknown_types=output.unknown_types or "error",
            tables=TablePatterns.parse(output.tables, output.exclude),
            publish=tuple(output.publish),
            two_phase=output.two_phase,
            with_ddl=output.ddl,
            output=output.out if len(flags.outputs) > 1 else None,
        )
        for output in flags.outputs
    ]
