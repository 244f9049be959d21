"""The same WAL rolled forward in windows, with an image, written and read, between one and the next."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from catalog.recording import Mark, Rolled, apply, open_copy, read_records, tell, wrong_marks
from headwater.base.value_codec import read_value, value_bytes
from headwater.catalog.copy.data_directory import DataDirectory
from headwater.catalog.store.catalog_image import CatalogImage
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.heaps import Locator
from headwater.catalog.store.image_io import image_of, store_of
from headwater.wal.records.record import Record


@dataclass
class Windows:
    """WAL cut into windows.

    Attributes:
        backup: the catalog's copy.
        records: all of them.
        rolled: the catalog at their end, reached in one go.
        cuts: numbers of records that begin a window; the last one is their count.
        horizons: the horizon of the image at each cut.
        refetched: files that were read again from before a window.
    """

    backup: Path
    records: list[Record]
    rolled: Rolled
    cuts: list[int]
    horizons: list[int]
    refetched: set[Locator] = field(default_factory=set)

    def lsn(self, cut: int) -> int:
        """Return the LSN where the window that begins at a cut begins."""
        return self.records[cut].lsn if cut < len(self.records) else self.records[-1].end_lsn

    def next_xid(self, cut: int) -> int:
        """Return the next xid, of 64 bits, at a cut; no xid was met twice."""
        origin = self.rolled.store.origin
        first = origin.xid_epoch << 32 | origin.next_xid
        ahead = [record.xid + 1 - origin.next_xid for record in self.records[:cut] if record.xid]
        return first + max([0, *ahead])

    def image(self, store: CatalogStore, number: int) -> CatalogImage:
        """Make the image at a cut, by its number."""
        cut = self.cuts[number]
        return image_of(store, self.horizons[number], self.lsn(cut), self.next_xid(cut))

    def all_at_once(self, is_eager: bool) -> list[bytes]:
        """Make the images at all cuts, of one store that is never opened again.

        The store knows all files from the beginning.
        """
        store, images, begin = open_copy(self.backup, "postgres", self.rolled.extra), list[bytes](), 0
        for at, cut in enumerate(self.cuts):
            if is_eager:
                load_everything(store)
            roll(store, self.records[begin:cut])
            images.append(value_bytes(self.image(store, at)))
            begin = cut
        return images

    def at_the_end(self) -> bytes:
        """Make the image at the last cut, of a store to which transactions were reported there."""
        store = open_copy(self.backup, "postgres", self.rolled.extra)
        roll(store, self.records)
        return value_bytes(self.image(store, -1))

    def window(self, store: CatalogStore, begin: int, end: int) -> CatalogStore:
        """Roll a store forward over a window, again if it meets files that it had not known."""
        image = None if begin == 0 else image_of(store, 0, self.lsn(begin), self.next_xid(begin))
        extra: frozenset[Locator] = frozenset()
        while True:
            roll(store, self.records[begin:end])
            missing = store.redo.missing_locators()
            if not missing:
                return store
            extra |= missing
            if image is None:
                store = open_copy(self.backup, "postgres", extra)
                continue
            self.refetched |= missing
            store = store_of(image)
            for locator in extra:
                has_copy = not image.is_complete and not image.origin.is_exported
                store.files.add_extra(locator, DataDirectory(self.backup).heap(locator) if has_copy else None)
            store.redo.apply_earlier([record for record in self.records[:begin] if names_only(record, extra)])


def roll(store: CatalogStore, records: Sequence[Record]) -> None:
    """Apply records and tell what became of transactions."""
    for record in records:
        apply(store, record)
    tell(store, records)


def names_only(record: Record, locators: frozenset[Locator]) -> bool:
    """Tell whether an index made for these files would have kept a record for them."""
    if record.rmid == 9 and record.info & 0x70 == 0x70:
        return record.main_data[16:28] in {b"".join(n.to_bytes(4, "little") for n in locator) for locator in locators}
    if record.rmid == 2:
        at = 4 if record.info & 0xF0 == 0x20 else 0
        return record.main_data[at : at + 12] in {
            b"".join(n.to_bytes(4, "little") for n in locator) for locator in locators
        }
    return record.rmid in (0, 9, 10) and any(block.locator in locators for block in record.blocks)


def load_everything(store: CatalogStore) -> None:
    """Make objects of all versions and pages."""
    for heap in store.files.heaps.values():
        heap.versions()
    for table in store.tables.values():
        list(table.all_versions())


def cut_at_random(backup: Path, wal: Path, rolled: Rolled, count: int, seed: int) -> Windows:
    """Cut windows and horizons, some of them far behind their windows."""
    rng = random.Random(seed)
    records = read_records(wal, rolled.store.start_lsn, rolled.store.major)
    cuts = sorted({*rng.sample(range(1, len(records)), count - 1), len(records)})
    windows = Windows(backup, records, rolled, cuts, [])
    horizon = 0
    for cut in cuts:
        lsn = windows.lsn(cut)
        horizon = rng.choice((horizon, lsn, rng.randint(horizon, lsn), open_since(records[:cut], rolled)))
        windows.horizons.append(max([horizon, *windows.horizons[-1:]]))
        horizon = windows.horizons[-1]
    return windows


def open_since(records: Sequence[Record], rolled: Rolled) -> int:
    """Return the LSN where the oldest transaction began that had not ended."""
    began: dict[int, int] = {}
    for record in records:
        if record.xid:
            began.setdefault(record.xid, record.lsn)
        if record.rmid == 1 and record.info & 0x70 in (0x00, 0x20, 0x30, 0x40):
            for xid in rolled.ends.get(record.lsn, ()):
                began.pop(xid, None)
    return min(began.values(), default=records[-1].end_lsn)


def check_windows(windows: Windows, marks: Sequence[Mark]) -> list[str]:
    """Roll forward window by window: all that differs from one roll-forward, or from what the server said."""
    lines = []
    lazy, eager = windows.all_at_once(False), windows.all_at_once(True)
    store, begin = open_copy(windows.backup, "postgres"), 0
    for at, cut in enumerate(windows.cuts):
        store = windows.window(store, begin, cut)
        seen = [m for m in marks if windows.horizons[at - 1] * (at > 0) <= m.lsn <= windows.lsn(cut)]
        seen = [m for m in seen if m.lsn > windows.lsn(begin) or not _aborts(windows.rolled, m)]
        if store.files.is_complete:
            # Before, pages of an online backup may still lack what was pruned during the copy.
            lines += [f"cut {at}: {line}" for line in wrong_marks(seen, _with(windows.rolled, store))]
        written = value_bytes(windows.image(store, at))
        others = {"of a store opened lazily": lazy[at], "of one opened eagerly": eager[at]}
        if at == len(windows.cuts) - 1:
            others["made once"] = windows.at_the_end()
        lines += [
            f"cut {at}: image differs from that {name}: {difference(written, other)}"
            for name, other in others.items()
            if written != other
        ]
        image = read_value(CatalogImage, written)
        store = store_of(image, store if at % 2 else None)
        begin = cut
    return lines


def _aborts(rolled: Rolled, mark: Mark) -> bool:
    """Tell whether the asked transaction, or a part of it, was rolled back later: an image has forgotten it.

    A transaction that never ends was lost in a crash.
    """
    members = [sub for _, sub in rolled.members.get(mark.xid, [])]
    is_lost = mark.xid != 0 and not any(mark.xid in ended for ended in rolled.ends.values())
    return is_lost or any(xid in rolled.aborted for xid in (mark.xid, *members))


def _with(rolled: Rolled, store: CatalogStore) -> Rolled:
    return Rolled(store, 1, rolled.commands, rolled.members, rolled.aborted)


def difference(a: bytes, b: bytes) -> str:
    """Name the fields in which two images differ."""
    image, other = read_value(CatalogImage, a), read_value(CatalogImage, b)
    fields = []
    for name in CatalogImage.__dataclass_fields__:
        left, right = getattr(image, name), getattr(other, name)
        if name in ("catalogs", "heaps"):
            fields += [f"{name}: {len(left)} {len(right)}"] if len(left) != len(right) else []
            for x, y in zip(left, right, strict=False):
                key, x, y = (x[0], x[1], y[1]) if name == "catalogs" else (x.locator, x, y)
                fields += [
                    f"{name} {key} {f}: {getattr(x, f)} {getattr(y, f)}"
                    for f in x.__dataclass_fields__
                    if str(getattr(x, f)) != str(getattr(y, f))
                ]
        elif str(left) != str(right):
            fields.append(f"{name}: {left} {right}")
    return "; ".join(fields)
