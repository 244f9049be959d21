"""The mode of a target whose tables are kept in several ways: each table's is what its settings say.

Changes of all tables come the same way; of tables of changes what a mirror would take in is passed over. What concerns
two tables of different modes is refused: rows that come with a partition, and tables that take the names of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from headwater.base.overrides import override
from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.lakes.lake_table import DataFile, LakeTable
from headwater.lakes.paused import RELOADED_OR_CHANGES
from headwater.lakes.settings.table_settings import settings_of
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_modes import CHANGELOG, MODES, Mode, mode_of
from headwater.landing.mirrors.landed_files import Landing, Merging, Settled, Written
from headwater.landing.tables.catalog_changes import CatalogWindow
from headwater.landing.tables.source_tables import SourceTable
from headwater.pipeline.slices.decode_job import SliceDecoder
from headwater.pipeline.windows.assemble import Assembly
from headwater.plugins.table_patterns import qualified_name


def mode_in(lake: Lake) -> Mode:
    """Return the mode of a target that is held.

    Raises:
        UsageError: it cannot be kept so.
    """
    if len(lake.target.modes) == 1:
        return mode_of(lake.target)
    return ModesByTable(lake)


class ModesByTable(Mode):
    """The modes of tables.

    Args:
        lake: the target that they are in.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake, self.name = lake, lake.target.mode
        self._own: dict[tuple[int, str], Mode] = {}
        names = {lake.target.mode, *(entry.mode for entry in lake.target.tables if entry.mode)}
        self.mirrors = names != {CHANGELOG}

    @override
    def of(self, schema: RelationSchema) -> Mode:
        place = schema.oid, qualified_name(schema)
        if place not in self._own:
            note = self._lake.registry.table_note(schema.oid)
            settings = settings_of(self._lake.target.tables, place[1] if note is None else note.table)
            self._own[place] = MODES[settings.mode or self._lake.target.mode]
        return self._own[place]

    def tables(
        self, assembly: Assembly, window: CatalogWindow, wants: Callable[[RelationSchema], bool], since: int
    ) -> list[SourceTable]:
        """See :class:`Mode`; a table of changes has a story if partitions have left it with rows that no mirror has."""
        if not self.mirrors:
            return MODES[CHANGELOG].tables(assembly, window, wants, since)
        known = next(mode for mode in MODES.values() if mode.mirrors).tables(assembly, window, wants, since)
        mirrors = [table for table in known if self.of(table.last).mirrors]
        if len(mirrors) == len(known):
            return mirrors
        plain = {table.last.oid: table for table in MODES[CHANGELOG].tables(assembly, window, wants, since)}
        for table in known:
            if not self.of(table.last).mirrors and table.story is not None and table.story.detached:
                plain[table.last.oid] = replace(
                    plain.get(table.last.oid) or SourceTable(table.last, ()), story=table.story
                )
        return [*mirrors, *(table for table in plain.values() if not self.of(table.last).mirrors)]

    def existing(self, source: SourceTable) -> SourceTable:
        return self.of(source.last).existing(source)

    def concerns(self, source: SourceTable, lake: Lake) -> bool:
        return self.of(source.last).concerns(source, lake)

    def landing(
        self, number: int, source: SourceTable, named: tuple[str, LakeTable], lake: Lake, decoder: SliceDecoder
    ) -> Landing:
        """See :class:`Mode`.

        Raises:
            LakeError: likewise; or rows come from a table that may be kept otherwise.
        """
        mode = self.of(source.last)
        if source.story is not None:
            if not mode.mirrors:
                lake.registry.note_detached(source.story.detached)
            for arrival in source.story.coming if mode.mirrors else ():
                raise LakeError(
                    f"rows come to table {qualified_name(source.last)} with a partition from another table, and "
                    "tables are kept in several modes here",
                    lsn=arrival.lsn,
                    hint=RELOADED_OR_CHANGES,
                )
        return mode.landing(number, source, named, lake, decoder)

    def settled(
        self, landings: Sequence[Landing], written: Mapping[int, list[Written]], merging: Merging
    ) -> Iterator[Settled]:
        """Yield what each mode does."""
        plain = {landing.number for landing in landings if landing.mirror is None}
        changes = {number: files for number, files in written.items() if number in plain}
        yield from MODES[CHANGELOG].settled(landings, changes, merging)
        mirrors = [landing for landing in landings if landing.number not in plain]
        for mode in (mode for mode in MODES.values() if mode.mirrors):
            own = [landing for landing in mirrors if self.of(landing.source.last) is mode]
            if own:
                numbers = {landing.number for landing in own}
                yield from mode.settled(
                    own, {number: files for number, files in written.items() if number in numbers}, merging
                )

    def loaded(self, landing: Landing, files: list[DataFile], lsn: int, merging: Merging) -> Settled:
        return self.of(landing.source.last).loaded(landing, files, lsn, merging)
