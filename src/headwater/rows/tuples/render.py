"""Items' tuples made into text cells: the way into the kernels, with room made for them and their statuses made errors.

Two passes: ``_deform.locate`` finds where the payload of each attribute lies, ``_print`` prints one payload after the
other. Both write into arrays of a fixed size and stop when one is full; :func:`render` enlarges it and goes on where
they stopped. Cells lie in item order, an item's old tuple before its new one. Their texts lie without gaps, so that an
Arrow string array needs no copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from headwater.errors import DecodingError, RecordError, UnsupportedTypeError, warn
from headwater.rows._send_codes import NO_SEND_FUNCTION, SENT
from headwater.rows._text_codes import CODE_UNKNOWN, CORRUPT, NEED_SPACE, UNKNOWN_LABEL
from headwater.rows.conversion import converted_cells
from headwater.rows.extension_types import chosen_values, print_added, replace_values
from headwater.rows.items import BINARY, NULL, REFUSED, TEXT, Cells, Items
from headwater.rows.text_tables import UNKNOWN_TYPES_HINT, TextTables
from headwater.rows.tuples import _deform, _print
from headwater.rows.tuples._toast import CHUNK_MALFORMED, CHUNK_ORDER, make_pending
from headwater.rows.tuples.layout import SliceLayouts, column_label

_MALFORMED = {
    _deform.BAD_TUPLE: "malformed tuple: its header does not fit its length",
    _deform.BAD_VARLENA: "malformed tuple: {place} runs past its end",
    _deform.TRAILING_BYTES: "malformed tuple: bytes left after its last attribute",
    _deform.BAD_COMPRESSED: "compressed data of {place} is corrupt",
    CHUNK_MALFORMED: "malformed toast chunk row",
    CORRUPT: "malformed value of {place}",
}

# No single value's text is longer than 1 GB: more room than that being too little is a kernel's error.
_MAX_AHEAD = 1 << 32


class LocatedCells(NamedTuple):
    """The cells on their way: kinds, offsets and lengths become those of :class:`Cells`; owners are columns.

    Attributes:
        kinds: uint8[m].
        starts: int64[m].
        lengths: int32[m].
        owners: int32[m].
    """

    kinds: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]
    owners: NDArray[np.int32]

    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        return self.kinds, self.starts, self.lengths, self.owners


class Located(NamedTuple):
    """All tuples of a slice's n items, taken apart.

    Attributes:
        new_first: int64[n] the first cell of each item's new tuple, -1 where there is none.
        old_first: int64[n] likewise of its old tuple.
        cells: of each attribute of each tuple.
        data: uint8[] the slice's bytes, in which payloads lie.
        arena: uint8[] in which the others lie (kind IN_ARENA).
    """

    new_first: NDArray[np.int64]
    old_first: NDArray[np.int64]
    cells: LocatedCells
    data: NDArray[np.uint8]
    arena: NDArray[np.uint8]


class PrintedTuples(Located):
    """Tuples of a source that has values as text, in UTF8: payloads are these texts."""

    __slots__ = ()


def render(data: NDArray[np.uint8], items: Items, layouts: SliceLayouts, *, room: int | None = None) -> Cells:
    """Turn the tuples of a slice's items into text cells, or binary ones as the layouts say.

    A value with a character that cannot be sent in the client's encoding becomes REFUSED, and no error yet: it may be
    that nobody asks for it.

    Args:
        data: uint8[] the slice's bytes, which the items' offsets refer to.
        items: changes in output order, TOAST chunk rows among them.
        layouts: the relation versions that the items refer to.
        room: bytes to make room for at first (for tests; arrays grow), None for a guess.

    Raises:
        RecordError: a tuple, a chunk row or compressed data is malformed; with the item's LSN.
        DecodingError: TOAST chunks do not fit together, or an enum value is unknown; or a value that is to be sent in
            binary form is made of one that has none; with the item's LSN.
        UnsupportedTypeError: a value's type has no text form, and the session takes none; with the item's LSN.

    Warns:
        HeadwaterWarning: NULL stands for such values; once for each column.
    """
    return print_located(locate(data, items, layouts, room=room), items, layouts, room=room)


def locate(data: NDArray[np.uint8], items: Items, layouts: SliceLayouts, *, room: int | None = None) -> Located:
    """Take the tuples of a slice's items apart; arguments, and errors about tuples, are those of :func:`render`."""
    data = np.require(data, dtype=np.uint8, requirements=["C", "W"])
    new_first, old_first = np.empty((2, len(items.kind)), dtype=np.int64)
    counts = np.zeros(2, dtype=np.int64)
    _deform.count_cells(items, layouts.first_column, counts)
    cells = LocatedCells(*(np.empty(counts[0], dtype=type) for type in (np.uint8, np.int64, np.int32, np.int32)))
    chunks = int(counts[1])
    arena = _locate_cells(data, items, layouts, cells, new_first, old_first, chunks, 1 << 16 if room is None else room)
    return Located(new_first, old_first, cells, data, arena)


def print_located(located: Located, items: Items, layouts: SliceLayouts, *, room: int | None = None) -> Cells:
    """Print tuples that were taken apart; arguments, and errors about values, are those of :func:`render`.

    The cells that were located become those that are printed, and cannot be used again.
    """
    new_first, old_first, cells, data, arena = located
    if layouts.unknown:
        _take_unknown_out(cells, layouts, items, (old_first, new_first))
    text = np.empty(_guess(cells) if room is None else room, dtype=np.uint8)
    text = _print_cells(data, arena, layouts, cells, text, items, (old_first, new_first))
    if layouts.added:
        text = _print_added(cells, layouts, text)
    printed = Cells(new_first, old_first, cells.kinds, cells.starts, cells.lengths, text)
    return converted_cells(printed, layouts.conversion)


def _locate_cells(
    data: NDArray[np.uint8],
    items: Items,
    layouts: SliceLayouts,
    cells: LocatedCells,
    new_first: NDArray[np.int64],
    old_first: NDArray[np.int64],
    chunks: int,
    room: int,
) -> NDArray[np.uint8]:
    """Find all payloads.

    Args:
        data: see :func:`render`; likewise items and layouts.
        cells: gets, of each cell, where its payload lies.
        new_first: int64[n] gets the first cell of each item's new tuple, -1 where there is none.
        old_first: likewise of its old tuple.
        chunks: how many chunk rows there are (``_deform.count_cells``).
        room: bytes to make room for at first.

    Returns:
        uint8[] the arena, which holds the payloads that are not in data (kind IN_ARENA).
    """
    pending = make_pending(chunks)
    state = np.zeros(_deform.STATE_SIZE, dtype=np.int64)
    state[_deform.TXN] = -1
    state[_deform.ARENA_END] = len(layouts.missing)
    arena = _grown(layouts.missing, len(layouts.missing), room)
    first, columns = layouts.first_column, layouts.columns
    while status := _deform.locate(
        data, items, first, columns, pending, new_first, old_first, cells.arrays(), arena, state
    ):
        if status != _deform.NEED_ARENA:
            _raise_item(status, state, items, layouts)
        needed = max(2 * len(arena), int(state[_deform.DETAIL]))
        arena = _grown(arena, int(state[_deform.ARENA_END]), needed)
    return arena


def _take_unknown_out(
    cells: LocatedCells, layouts: SliceLayouts, items: Items, firsts: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> None:
    """Make values NULL whose type has no text form, or refuse the first of them."""
    is_value = (cells.kinds == TEXT) | (cells.kinds == _deform.IN_ARENA)
    unknown = np.flatnonzero(is_value & (layouts.texts.code[cells.owners] == CODE_UNKNOWN))
    if len(unknown) and layouts.refuses_unknown:
        column = int(cells.owners[unknown[0]])
        raise UnsupportedTypeError(
            f"{layouts.unknown[column]}, needed for {column_label(layouts, column)}",
            lsn=int(items.lsn[_item_of(int(unknown[0]), firsts)]),
            hint=UNKNOWN_TYPES_HINT,
        )
    cells.kinds[unknown], cells.lengths[unknown] = NULL, 0
    for column in np.unique(cells.owners[unknown]).tolist():
        warn(f"{layouts.unknown[column]}, {column_label(layouts, column)} has NULL instead of them")


def _print_cells(
    data: NDArray[np.uint8],
    arena: NDArray[np.uint8],
    layouts: SliceLayouts,
    cells: LocatedCells,
    text: NDArray[np.uint8],
    items: Items,
    firsts: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.uint8]:
    """Print all cells; their text."""

    def refuse(status: int, cell: int) -> NoReturn:
        column = int(cells.owners[cell])
        lsn = int(items.lsn[_item_of(cell, firsts)])
        raise_cell(status, lsn, column_label(layouts, column), layouts.unsent.get(column))

    return print_all(data, arena, layouts.texts, cells, refuse, text)


def print_all(
    data: NDArray[np.uint8],
    arena: NDArray[np.uint8],
    tables: TextTables,
    cells: LocatedCells,
    refuse: Callable[[int, int], NoReturn],
    text: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Print cells one after the other; return their text. The places of payloads become the places of texts.

    Args:
        data: uint8[]; arena: uint8[] where payloads lie.
        tables: of the cells' columns.
        cells: the cells to print.
        refuse: called with a kernel's status, and the cell that it could not print.
        text: uint8[] to be written first, None for a guess.
    """
    print_cells = _printer(tables)
    text = np.empty(_guess(cells), dtype=np.uint8) if text is None else text
    state = np.zeros(_print.STATE_SIZE, dtype=np.int64)
    while status := print_cells(data, arena, tables, cells.arrays(), text, state):
        used = int(state[_print.TEXT_END])
        if status != NEED_SPACE or len(text) - used >= _MAX_AHEAD:
            refuse(status, int(state[_print.CELL]))
        text = _grown(text, used, 2 * len(text) + 64)
    return text[: state[_print.TEXT_END]]


def _printer(tables: TextTables) -> Callable[..., int]:
    """Choose the kernel that knows all codes of the tables, and fewest others."""
    codes = tables.code
    if (codes >= SENT).any():
        return _print.print_forms
    return _print.print_common if np.isin(codes, _print.COMMON).all() else _print.print_any


def _print_added(cells: LocatedCells, layouts: SliceLayouts, text: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Put texts in the place of the stored bytes of types that other packages print; all text."""
    is_printed = np.isin(cells.kinds, (TEXT, BINARY, REFUSED))
    for column, output in layouts.added.items():
        chosen = (cells.owners == column) & is_printed
        if chosen.any():
            lengths = np.where(is_printed, cells.lengths, 0).astype(np.int64)
            values = chosen_values(text, cells.starts[chosen], lengths[chosen])
            binary = bool(layouts.texts.code[column] >= SENT)
            texts = print_added(output, values, column_label(layouts, column), binary=binary)
            text, starts = replace_values(text, lengths, chosen, texts)
            cells.lengths[chosen] = np.diff(starts)[chosen]
            cells.starts[is_printed] = starts[:-1][is_printed]
    return text


def _guess(cells: LocatedCells) -> int:
    """Guess the bytes of text: it is mostly shorter than twice the payloads and 16 bytes a cell."""
    return 2 * int(cells.lengths.sum(dtype=np.int64)) + 16 * len(cells.lengths) + 64


def _grown(array: NDArray[np.uint8], used: int, size: int) -> NDArray[np.uint8]:
    """Return a longer array that begins with the used bytes."""
    grown = np.empty(max(size, used), dtype=np.uint8)
    grown[:used] = array[:used]
    return grown


def place_of_cell(cells: Cells, cell: int) -> tuple[int, int]:
    """Find the item that a cell is of, and the index of its column."""
    firsts = cells.old_first, cells.new_first
    item = _item_of(cell, firsts)
    return item, cell - max(int(first[item]) for first in firsts if 0 <= first[item] <= cell)


def _item_of(cell: int, firsts: Sequence[NDArray[np.int64]]) -> int:
    """Find the item whose old or new tuple has a cell: the last one that begins at or before it."""
    return max(int(item) for first in firsts for item in np.flatnonzero((first >= 0) & (first <= cell))[-1:])


def _raise_item(status: int, state: NDArray[np.int64], items: Items, layouts: SliceLayouts) -> NoReturn:
    """Raise the error that a status of ``locate`` stands for."""
    item, column = int(state[_deform.ITEM]), int(state[_deform.COLUMN])
    lsn = int(items.lsn[item])
    place = column_label(layouts, column) if column >= 0 else "a tuple"
    actual, value, expected = (int(detail) for detail in state[_deform.DETAIL : _deform.DETAIL + 3])
    if status in _MALFORMED:
        raise RecordError(_MALFORMED[status].format(place=place), lsn=lsn)
    if status == CHUNK_ORDER:
        # The server's own words (ReorderBufferToastAppendChunk).
        wanted = f"seq {expected}"
        raise DecodingError(f"got sequence entry {actual} for toast chunk {value} instead of {wanted}", lsn=lsn)
    if status == _deform.CHUNKS_MISSING:
        wanted = f"its pointer in {place} says {expected}"
        raise DecodingError(f"toast value {value} has {actual} bytes in its chunks, {wanted}", lsn=lsn)
    kind, layout = int(items.kind[item]), int(items.layout[item])
    raise DecodingError(f"item {item} of kind {kind} refers to relation version {layout}", lsn=lsn)


def raise_cell(status: int, lsn: int, place: str, unsent: str | None) -> NoReturn:
    """Raise the error that a status of a printing kernel stands for."""
    if status == NO_SEND_FUNCTION:
        # The server's own words (getTypeBinaryOutputInfo).
        message = f"no binary output function available for type {unsent}, needed for {place}"
        raise DecodingError(message, lsn=lsn, hint="leave the column out, or do not ask for binary")
    if status == UNKNOWN_LABEL:
        raise DecodingError(f"value of {place} is no label of its enum type as the catalog has it", lsn=lsn)
    if status == CORRUPT:
        raise RecordError(_MALFORMED[CORRUPT].format(place=place), lsn=lsn)
    raise DecodingError(f"text of {place} is longer than 1 GB", lsn=lsn)
