"""Mutated WAL: pages, records, whole windows, slices whose plan was made of sound WAL, images of pages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fuzz.corpus import SEGMENT, Corpus
from fuzz.kinds import Kind
from fuzz.mutations import change, changed, words_of
from fuzz.wal_records import PAGE, change_order, change_record, parts_of, written
from fuzz.windows import REPLICA, Window, closed_windows, decode, offset_of, plan
from headwater.catalog.store.image_io import store_of
from headwater.errors import HeadwaterError
from headwater.reorder.plan import Slice
from headwater.reorder.slices.cutting import cut_slices
from headwater.rmgr.index.wal_index import Request, build_index
from headwater.rmgr.outline import RecordChoice
from headwater.source.record_rows import record_batches
from headwater.wal.layout import BKPIMAGE_COMPRESSED
from headwater.wal.records.frames import read_frames
from headwater.wal.records.record import Image, Record, parse_record

SLICE_BYTES = 1 << 20


class Pages(Kind):
    """Bytes of pages, checksums left as they are: framing must tell the end of the log from damage."""

    name, share = "pages", 12

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._windows = closed_windows(corpora, scratch)

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        window = rng.choice(self._windows)
        target = window.target
        used = max(1, -(-(sum(map(len, window.records)) + 400) // PAGE))
        first = rng.randrange(used)
        pages = bytearray(target.whole[: (first + rng.choice((1, 2, 4))) * PAGE])
        if rng.random() < 0.3:
            change(rng, pages, [(first * PAGE + at, width) for at, width in ((0, 2), (2, 2), (4, 4), (8, 8), (16, 4))])
        else:
            part = bytearray(pages[first * PAGE :])
            change(rng, part, [(rng.randrange(PAGE) & ~7, 4)])
            pages[first * PAGE :] = part
        target.put(bytes(pages))
        frames = read_frames(target.directory, window.lo + first * PAGE, window.lo + len(pages))
        return "to the end" if frames.end is None else "end of the log"


class Records(Kind):
    """A few records out of their order: indexed, taken apart, described."""

    name, share = "records", 25

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._windows = closed_windows(corpora, scratch)

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        window = rng.choice(self._windows)
        at, count = rng.randrange(len(window.records)), rng.choice((1, 1, 2, 4, 12))
        records = [record for record in window.records[at : at + count] if len(record) < 60_000]
        _change_some(rng, records, window)
        pages = written(rng, window.header, window.kept.state.last_lsn, records, SEGMENT)
        window.target.put(pages)
        frames = read_frames(window.target.directory, window.lo, window.lo + SEGMENT)
        refused = 0
        major = window.corpus.major
        refused += _tried(lambda: list(record_batches(frames, SEGMENT, RecordChoice(), major)))
        refused += _tried(lambda: _parsed(frames, major))
        store = window.store
        request = Request((store.database_oid,), tuple(sorted(store.files.locators())), major)
        index = build_index(frames, window.lo, window.lo + SEGMENT, request)
        for kept_record in index.kept:
            parse_record(kept_record.data, kept_record.lsn, kept_record.end_lsn, major)
        return "indexed" if not refused else "indexed, not described"


def _parsed(frames: object, major: int) -> None:
    from headwater.wal.records.frames import Frames

    assert isinstance(frames, Frames)
    for number, (lsn, end) in enumerate(zip(frames.lsns.tolist(), frames.end_lsns.tolist(), strict=True)):
        record = parse_record(frames.record(number), lsn, end, major)
        for block in record.blocks:
            if block.image is not None:
                block.image.page()


def _tried(step: object) -> int:
    """Tell whether a step that others follow ends with an error of ours."""
    try:
        step()  # type: ignore[operator]
    except HeadwaterError:
        return 1
    return 0


def _change_some(rng: random.Random, records: list[bytes], window: Window) -> None:
    """Change one record or a few; seldom their order."""
    if not records:
        return
    if rng.random() < 0.2:
        change_order(rng, records, window.records)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if records:
            at = rng.randrange(len(records))
            records[at] = change_record(rng, records[at], window.records, window.corpus.major)


class Windows(Kind):
    """A window from a state on: indexed, put together, planned, decoded, and the state after it made."""

    name, share = "windows", 3

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._windows = closed_windows(corpora, scratch)

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        window = rng.choice(self._windows)
        records = window.records[: rng.randint(1, min(len(window.records), rng.choice((20, 60, 200, 1000))))]
        records = list(records)
        _change_some(rng, records, window)
        pages = written(rng, window.header, window.kept.state.last_lsn, records, SEGMENT)
        window.target.put(pages)
        plugin = rng.randrange(REPLICA + 1)
        opened = window.opened(plugin, window.target.directory)
        planned = plan(opened)
        messages = 0
        for slice_ in cut_slices(planned.assembly.plan, SLICE_BYTES):
            messages += decode(rng, opened, slice_)
        if rng.random() < 0.3:
            planned.behind.state(1)
        return "messages" if messages else "nothing"


class Slices(Kind):
    """Tuples under a plan that sound WAL gave: collected, deformed, printed or sent, made messages or rows of."""

    name, share = "slices", 14

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._windows = closed_windows(corpora, scratch)
        self._plans: dict[tuple[int, int], list[tuple[Slice, list[tuple[int, bytes]]]]] = {}

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        plugin = rng.randrange(REPLICA + 1)
        plans: list[tuple[Slice, list[tuple[int, bytes]]]] = []
        while not plans:
            number = rng.randrange(len(self._windows))
            plans = self._planned(number, plugin)
        window, (slice_, records) = self._windows[number], rng.choice(plans)
        lsn, record = rng.choice(records)
        data = _same_length(rng, record, window.corpus.major)
        patches = [(offset_of(lsn, at), at) for at in range(len(data)) if data[at] != record[at]]
        for at, byte in patches:
            window.target.patch(at, data[byte : byte + 1])
        opened = window.opened(plugin, window.target.directory)
        try:
            decode(rng, opened, slice_)
        finally:
            for at, byte in patches:
                window.target.patch(at, record[byte : byte + 1])
        return "messages"

    def _planned(self, number: int, plugin: int) -> list[tuple[Slice, list[tuple[int, bytes]]]]:
        """List slices of a window, each with the records in its ranges: LSN and bytes."""
        if (number, plugin) not in self._plans:
            window = self._windows[number]
            opened = window.opened(plugin, window.corpus.directory)
            slices = cut_slices(plan(opened).assembly.plan, SLICE_BYTES)
            records_of_slices = [(slice_, _in_window(window, slice_)) for slice_ in slices]
            self._plans[number, plugin] = [(slice_, records) for slice_, records in records_of_slices if records]
        return self._plans[number, plugin]


def _in_window(window: Window, slice_: Slice) -> list[tuple[int, bytes]]:
    located = []
    for lo, hi in slice_.ranges:
        if hi > window.lo and lo < window.lo + SEGMENT:
            frames = read_frames(window.corpus.directory, max(lo, window.lo), min(hi, window.lo + SEGMENT))
            located += [(lsn, frames.record(n)) for n, lsn in enumerate(frames.lsns.tolist())]
    return [(lsn, record) for lsn, record in located if record[17] in (9, 10) and len(record) < 60_000]


def _same_length(rng: random.Random, record: bytes, major: int) -> bytes:
    """Change a record after its own header, or in flags and kind, keeping its length."""
    data, parts = bytearray(record), parts_of(record, major)
    start = rng.choice([parts.main, *parts.blocks, 24, 16])
    part = data[start:]
    change(rng, part, words_of(bytes(part[: rng.choice((8, 40, 400))])))
    data[start:] = part
    return bytes(data)


class Redo(Kind):
    """Records of catalogs applied to the catalog before them, which is then asked."""

    name, share = "redo", 6

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._windows = closed_windows(corpora, scratch)
        self._records: dict[int, list[Record]] = {}

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        number = rng.randrange(len(self._windows))
        window = self._windows[number]
        records = self._kept(number)
        count = rng.choice((5, 20, 60))
        store = store_of(window.kept.state.catalog)
        failed = 0
        xids = set[int]()
        for record in records[:count]:
            data = rng.random() < 0.15
            failed += _tried(lambda r=record, d=data: store.apply(_changed_record(rng, r) if d else r))
            xids.add(record.xid)
        if not records:
            return "nothing"
        lsn = records[-1].end_lsn
        store.commit(sorted(xids - {0}), lsn)
        view = store.view(lsn + 1)
        for _, _, filenode in rng.sample(sorted(store.files.locators()), 3):
            failed += _tried(lambda f=filenode: view.relation_by_filenode(1663, f))
        for oid in (16384, 16385, 16390, 1259, 1249):
            failed += _tried(lambda o=oid: view.relation(o))
        return "applied" if not failed else "refused"

    def _kept(self, number: int) -> list[Record]:
        if number not in self._records:
            window = self._windows[number]
            frames = read_frames(window.corpus.directory, window.lo, window.lo + SEGMENT)
            store = window.store
            major = window.corpus.major
            request = Request((store.database_oid,), tuple(sorted(store.files.locators())), major)
            index = build_index(frames, window.lo, window.lo + SEGMENT, request)
            self._records[number] = [parse_record(k.data, k.lsn, k.end_lsn, major) for k in index.kept]
        return self._records[number]


def _changed_record(rng: random.Random, record: Record) -> Record:
    how = rng.randrange(6)
    if how == 0:
        return record._replace(info=record.info ^ 1 << rng.randrange(8))
    if how == 1 or not record.blocks:
        return record._replace(main_data=changed(rng, record.main_data, words_of(record.main_data)))
    at = rng.randrange(len(record.blocks))
    block = record.blocks[at]
    if how == 2:
        block = block._replace(block=rng.choice((0, 1, 2, 0xFFFFFFFF, 0x7FFFFFFF, block.block + 1)))
    elif how == 3:
        block = block._replace(will_init=not block.will_init, fork=rng.randrange(4))
    elif how == 4 and block.image is not None:
        block = block._replace(image=replace(block.image, data=changed(rng, block.image.data)))
    else:
        block = block._replace(data=changed(rng, block.data, words_of(block.data)))
    blocks = (*record.blocks[:at], block, *record.blocks[at + 1 :])
    return record._replace(blocks=blocks)


class Images(Kind):
    """Page images: pglz, LZ4, Zstandard, holes."""

    name, share = "images", 10

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._images = list[Image]()
        for window in closed_windows(corpora, scratch):
            for number, record in enumerate(window.records):
                parsed = parse_record(record, number, number, window.corpus.major)
                self._images += [block.image for block in parsed.blocks if block.image is not None]
        packed = [image for image in self._images if image.info & BKPIMAGE_COMPRESSED]
        self._images = [*packed, *self._images[:: max(1, len(self._images) // max(1, len(packed)))]]
        self._images += [replace(packed[0], data=_zstd(image.page()), info=0x13) for image in packed[:4]]

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        image = rng.choice(self._images)
        data = changed(rng, image.data)
        info = image.info if rng.random() < 0.8 else rng.randrange(256)
        offset = image.hole_offset if rng.random() < 0.9 else rng.randrange(8192)
        length = image.hole_length if rng.random() < 0.9 else rng.randrange(8192)
        page = replace(image, data=data, info=info, hole_offset=offset, hole_length=length).page()
        assert len(page) == PAGE
        return "page"


def _zstd(page: bytes) -> bytes:
    import pyarrow

    return bytes(pyarrow.compress(page, "zstd", asbytes=True))


KINDS: list[type[Kind]] = [Pages, Records, Windows, Slices, Redo, Images]
