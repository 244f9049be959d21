"""Stored values made into Arrow arrays, without text in between: a whole column at a time.

In: where the values of a column lie (:class:`Values`), and its
:class:`~headwater.rows.columns.column_types.ColumnType`. Out: an array of its Arrow type, as long, null where there is
no value. Only types that are text are printed; of these the kernels of the text path make the text.

A value that Arrow's type cannot hold is an error, or null if that was asked for; inside a range it makes the whole
range null, as a bound that is null has a meaning of its own. Errors name table, column and LSN, never the value.

Known gap: a package's types (``headwater.types``) are read back from the text that it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrow_buffers import arrow_buffer, as_strings, binary_array, bitmap
from headwater.errors import DecodingError, RecordError
from headwater.pg.encodings import UTF8
from headwater.rows.columns import _columns
from headwater.rows.columns import _nested_parts as _parts
from headwater.rows.columns._columns import IN_ARENA, NONE, VALUE, Stored
from headwater.rows.columns._stored_columns import Spans
from headwater.rows.columns.arrow import first_refused
from headwater.rows.columns.column_types import ALL_DAYS, ColumnType, Form
from headwater.rows.columns.parsed_columns import HINT, read_back
from headwater.rows.columns.text_columns import ESCAPED, NULLED, REFUSING, printed_column
from headwater.rows.columns.variant import variants
from headwater.rows.conversion import make_conversion
from headwater.rows.session import SessionSettings
from headwater.rows.text._parts import MISSING_PART
from headwater.rows.text_tables import build_text_tables

_SHIFT_DAYS = 10_957
"""1970-01-01 to 2000-01-01."""

_DAY = 86_400_000_000
_EMPTY, _LOWER_INC, _UPPER_INC = 1, 2, 4
_LIMBS = 4

REASONS = {
    _columns.INFINITE: "infinity",
    _columns.TOO_EARLY: "a date before the year 1",
    _columns.TOO_LATE: "a date after the year 9999",
    _columns.NAN: "NaN",
    _columns.TOO_MANY_DIGITS: "a number of more than 38 digits",
}


class Values(NamedTuple):
    """Values of a column or of its parts, n of them.

    Attributes:
        stored: where they lie.
        row: int64[n] the change that each is of.
    """

    stored: Stored
    row: NDArray[np.int64]


@dataclass(frozen=True)
class Asked:
    """The treatment of values, and their names in errors.

    Attributes:
        session: settings that text is printed under.
        with_null: null stands for what a column cannot hold.
        place: names the column of a change.
        lsn: of a change.
        with_escapes: text that is none in UTF-8 is escaped.
    """

    session: SessionSettings
    with_null: bool
    place: Callable[[int], str]
    lsn: Callable[[int], int]
    with_escapes: bool = False


def arrow_array(column: ColumnType, values: Values, asked: Asked) -> pa.Array[Any]:
    """Read a column's values.

    Raises:
        DecodingError: one does not fit, or is too long, or is no text in UTF-8.
        RecordError: one is malformed.
        UnsupportedTypeError: its type has no text form, and the session takes none.
    """
    return _READERS[column.form](_Reading(column, values, asked))


@dataclass(frozen=True)
class _Reading:
    """A call of :func:`arrow_array`."""

    column: ColumnType
    values: Values
    asked: Asked

    @property
    def stored(self) -> Stored:
        """The places of the values."""
        return self.values.stored

    def __len__(self) -> int:
        return len(self.stored.kind)

    @cached_property
    def is_there(self) -> NDArray[np.bool_]:
        """The values that are not null: bool[n]."""
        there: NDArray[np.bool_] = self.stored.kind != NONE
        return there

    @property
    def validity(self) -> pa.Buffer | None:
        """The same for Arrow; None if all are."""
        return None if self.is_there.all() else bitmap(self.is_there)

    @property
    def fields(self) -> list[pa.Field[Any]]:
        """The fields of a column that is a struct."""
        return list(cast("pa.StructType", self.column.arrow))

    def where(self, at: int) -> tuple[str, int]:
        """Return the name of a value's column, and the LSN of its change."""
        row = int(self.values.row[at])
        return self.asked.place(row), self.asked.lsn(row)

    def without(self, lost: NDArray[np.bool_]) -> _Reading:
        """Return the reading with null instead of some values."""
        kind = np.where(lost, NONE, self.stored.kind).astype(np.uint8)
        return replace(self, values=self.values._replace(stored=self.stored._replace(kind=kind)))

    def check(self, status: int) -> None:
        """Stop at a row that a kernel gave back."""
        if status != _columns.DONE:
            self.malformed(int(status))

    def malformed(self, at: int) -> NoReturn:
        """Stop at a value that no server writes."""
        place, lsn = self.where(at)
        raise RecordError(f"malformed value of {place}", lsn=lsn)

    def fitting(self, fits: NDArray[np.uint8], reasons: Mapping[int, str] = REASONS) -> NDArray[np.bool_]:
        """Tell which values are there and fit, if that is what was asked for.

        Raises:
            DecodingError: one does not fit.
        """
        is_fitting = fits == _columns.FITS
        wrong = np.flatnonzero(fits >= _columns.TOO_LONG)
        if len(wrong):  # of a type's own values none is
            place, lsn = self.where(int(wrong[0]))
            raise DecodingError(f"a value of {place} does not fit type {self.column.name}", lsn=lsn)
        if not self.asked.with_null and not is_fitting.all():
            first = int(np.argmin(is_fitting))
            self.misfit(first, reasons[int(fits[first])])
        valid: NDArray[np.bool_] = self.is_there & is_fitting
        return valid

    def misfit(self, at: int, reason: str) -> NoReturn:
        """Stop at a value that the column cannot hold."""
        place, lsn = self.where(at)
        raise DecodingError(
            f"{place} holds {reason}, which {self.column.name} cannot hold",
            lsn=lsn,
            hint=HINT,
        )

    def fixed(self, valid: NDArray[np.bool_], data: NDArray[np.generic]) -> pa.Array[Any]:
        """Make an array of a fixed width."""
        validity = None if valid.all() else bitmap(valid)
        return pa.Array.from_buffers(self.column.arrow, len(self), [validity, arrow_buffer(np.ascontiguousarray(data))])

    def words(self, size: int) -> NDArray[np.uint8]:
        """Gather values of a fixed width: uint8[n * size]."""
        out = np.empty(len(self) * size, np.uint8)
        self.check(_columns.gather_words(self.stored, size, out))
        return out

    def binary(self) -> pa.BinaryArray:
        """Gather bytes, one value after the other."""
        offsets = np.empty(len(self) + 1, np.int64)
        self.check(_columns.measure(self.stored, offsets))
        if offsets[-1] > np.iinfo(np.int32).max:
            raise DecodingError(
                f"{self.asked.place(int(self.values.row[0]))} has more than 2 GB of values in one slice",
                hint="make slices smaller with partitionBytes",
            )
        out = np.empty(int(offsets[-1]), np.uint8)
        _columns.gather_bytes(self.stored, offsets, out)
        return binary_array(self.validity, offsets.astype(np.int32), out)

    def compact(self) -> Spans:
        """Gather the values that are there, one after the other in one piece of memory."""
        offsets = np.empty(len(self) + 1, np.int64)
        self.check(_columns.measure(self.stored, offsets))
        out = np.empty(int(offsets[-1]), np.uint8)
        _columns.gather_bytes(self.stored, offsets, out)
        return Spans(out, offsets[:-1][self.is_there], np.diff(offsets)[self.is_there])


def _words(read: _Reading) -> pa.Array[Any]:
    return read.fixed(read.is_there, read.words(read.column.arrow.bit_width // 8))


def _boolean(read: _Reading) -> pa.Array[Any]:
    values: pa.BooleanArray = pa.array(read.words(1) != 0, mask=~read.is_there)
    return values


def _unsigned(read: _Reading) -> pa.Array[Any]:
    if pa.types.is_integer(read.column.arrow):
        return read.fixed(read.is_there, read.words(4).view(np.uint32).astype(np.int64))
    wide = np.zeros((len(read), 2), np.uint64)
    wide[:, 0] = read.words(8).view(np.uint64)
    return read.fixed(read.is_there, wide)


def _moments(
    read: _Reading, size: int, shift: int, first: int, last: int
) -> tuple[NDArray[np.bool_], NDArray[np.generic]]:
    dtype: type[np.int32] | type[np.int64] = np.int32 if size == 4 else np.int64
    out, fits = np.empty(len(read), dtype), np.empty(len(read), np.uint8)
    limits = np.array([first, last], np.int64)
    status, _ = _columns.gather_moments(read.stored, size, shift, limits, out, fits)
    read.check(status)
    is_limited = read.column.target.last_day < ALL_DAYS
    return read.fitting(fits, REASONS if is_limited else {**REASONS, _columns.TOO_LATE: _BEYOND_1970}), out


_BEYOND_1970 = "a moment later than 294247-01-10"


def _date(read: _Reading) -> pa.Array[Any]:
    target = read.column.target
    return read.fixed(*_moments(read, 4, _SHIFT_DAYS, target.first_day, target.last_day))


def _time(read: _Reading) -> pa.Array[Any]:
    out, fits = np.empty(len(read), np.int64), np.empty(len(read), np.uint8)
    status, _ = _columns.gather_moments(read.stored, 8, 0, np.array([0, _DAY - 1], np.int64), out, fits)
    read.check(status)
    return read.fixed(read.fitting(fits, {_columns.TOO_LATE: "24:00:00"}), out)


def _timestamp(read: _Reading) -> pa.Array[Any]:
    target, shift = read.column.target, _SHIFT_DAYS * _DAY
    # PostgreSQL's timestamps reach 30 years further than 64 bits of microseconds since 1970.
    first, last = target.first_day * _DAY, min((target.last_day + 1) * _DAY - 1, (1 << 63) - 1 - shift)
    return read.fixed(*_moments(read, 8, shift, max(first, -(1 << 63)), last))


def _decimal(read: _Reading) -> pa.Array[Any]:
    most = 10 ** cast("pa.Decimal128Type[Any, Any]", read.column.arrow).precision - 1
    limit = np.array([most >> 32 * limb & 0xFFFFFFFF for limb in range(_LIMBS)], np.uint64)
    out, fits = np.empty((len(read), 2), np.uint64), np.empty(len(read), np.uint8)
    number, scale = np.empty(_LIMBS, np.uint64), read.column.scale
    status, _ = _columns.gather_decimals(read.stored, scale, limit, number, out.reshape(-1), fits)
    read.check(status)
    return read.fixed(read.fitting(fits), out)


def _money(read: _Reading) -> pa.Array[Any]:
    wide = np.empty((len(read), 2), np.int64)
    wide[:, 0] = read.words(8).view(np.int64)
    wide[:, 1] = wide[:, 0] >> 63
    return read.fixed(read.is_there, wide)


def _interval(read: _Reading) -> pa.Array[Any]:
    months, days, fits = np.empty(len(read), np.int32), np.empty(len(read), np.int32), np.empty(len(read), np.uint8)
    micros = np.empty(len(read), np.int64)
    has_infinite = read.asked.session.major >= _FIRST_WITH_INFINITE_INTERVALS
    status, _ = _columns.gather_intervals(read.stored, months, days, micros, has_infinite, fits)
    read.check(status)
    valid = read.fitting(fits)
    parts = [pa.array(part) for part in (months, days, micros)]
    return pa.StructArray.from_arrays(parts, fields=read.fields, mask=pa.array(~valid))


_FIRST_WITH_INFINITE_INTERVALS = 17


def _uuid(read: _Reading) -> pa.Array[Any]:
    words = read.words(16)
    plain = pa.Array.from_buffers(pa.binary(16), len(read), [read.validity, arrow_buffer(words)])
    return pa.ExtensionArray.from_storage(pa.uuid(), plain)


def _bytes(read: _Reading) -> pa.Array[Any]:
    return read.binary()


def _verbatim(read: _Reading) -> pa.Array[Any]:
    if pa.types.is_binary(read.column.arrow):
        return read.binary()
    session = read.asked.session
    is_converted = len(make_conversion(session.written_in, session.client_encoding).nodes) > 0
    return _printed(read) if is_converted else _as_text(read, read.binary())


def _printed(read: _Reading) -> pa.Array[Any]:
    asked, is_bytes = read.asked, pa.types.is_binary(read.column.arrow)
    session = asked.session.of_database if is_bytes else asked.session
    refused = ESCAPED if asked.with_escapes else NULLED if asked.with_null else REFUSING
    texts = printed_column(read.stored, read.column.type, session, read.where, refused=refused)
    return texts if is_bytes else _as_text(read, texts)


def _as_text(read: _Reading, raw: pa.BinaryArray) -> pa.StringArray:
    """Turn bytes that must be UTF-8 into text."""
    text = as_strings(raw)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        place, lsn = read.where(first_refused(text, lambda part: part.validate(full=True)))
        raise DecodingError(
            f"text of {place} is not valid UTF-8",
            lsn=lsn,
            hint="images and typed columns need a database whose encoding is UTF8",
        ) from None
    return text


def _added(read: _Reading) -> pa.Array[Any]:
    printed = printed_column(read.stored, read.column.type, read.asked.session, read.where, exact=True)
    return read_back(_as_text(read, printed), read.column, read.asked.with_null, read.where)


@dataclass(frozen=True)
class _Parts:
    """The parts of values, one value's parts after the other's.

    Attributes:
        counts: int64[n] parts of each value.
        stored: the m parts.
        row: int64[m] the change that each is of.
    """

    counts: NDArray[np.int64]
    stored: Stored
    row: NDArray[np.int64]

    def take(self, which: NDArray[np.int64]) -> Values:
        """Take some of the parts."""
        stored = self.stored
        picked = Stored(stored.kind[which], stored.start[which], stored.length[which], stored.data, stored.arena)
        return Values(picked, self.row[which])

    @property
    def all(self) -> Values:
        """All of them."""
        return Values(self.stored, self.row)


def _taken_apart(read: _Reading) -> _Parts:
    """Return the parts of the values that are there."""
    tables, values = build_text_tables([read.column.type], read.asked.session), read.compact()
    counts = np.zeros(len(read), np.int64)
    there = np.empty(len(values.start), np.int64)
    total = _parts.count_parts(tables, values, there)
    kinds, lengths = np.empty(max(total, 0), np.uint8), np.empty(max(total, 0), np.int64)
    starts = np.empty(max(total, 0), np.int64)
    if total < 0 or _parts.find_parts(tables, values, kinds, starts, lengths) < 0:
        read.malformed(int(np.argmax(read.is_there)))
    counts[read.is_there] = there
    arena = _unpacked(read, tables.missing, values.data, (kinds, starts, lengths))
    kind = np.choose(np.minimum(kinds, MISSING_PART), [NONE, NONE, VALUE, IN_ARENA, IN_ARENA]).astype(np.uint8)
    stored = Stored(kind, starts, lengths.astype(np.int32), values.data, arena)
    return _Parts(counts, stored, np.repeat(read.values.row, counts))


def _unpacked(
    read: _Reading,
    missing: NDArray[np.uint8],
    data: NDArray[np.uint8],
    parts: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.uint8]:
    """Return the fast defaults of attributes, followed by the unpacked parts."""
    size = _parts.unpacked_size(data, *parts)
    arena = np.empty(len(missing) + max(size, 0), np.uint8)
    arena[: len(missing)] = missing
    if size < 0 or _parts.unpack_parts(data, *parts, arena, len(missing)) < 0:
        read.malformed(int(np.argmax(read.is_there)))
    return arena


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _lists(read: _Reading, valid: NDArray[np.bool_], counts: NDArray[np.int64], inner: pa.Array[Any]) -> pa.Array[Any]:
    buffers = [None if valid.all() else bitmap(valid), arrow_buffer(_offsets(counts))]
    return pa.Array.from_buffers(read.column.arrow, len(read), buffers, children=[inner])


def _list(read: _Reading) -> pa.Array[Any]:
    dimensions, lower = np.empty(len(read), np.int32), np.empty(len(read), np.int32)
    read.check(_columns.array_shapes(read.stored, dimensions, lower))
    odd = (dimensions > 1) | (lower != 1)
    if odd.any():
        if not read.asked.with_null:
            first = int(np.argmax(odd))
            read.misfit(first, "an array of several dimensions" if dimensions[first] > 1 else "an array with bounds")
        read = read.without(odd)
    parts = _taken_apart(read)
    return _lists(read, read.is_there, parts.counts, arrow_array(read.column.parts[0], parts.all, read.asked))


def _struct(read: _Reading) -> pa.Array[Any]:
    parts = _taken_apart(read)
    attributes = read.column.type.attributes
    shown = [number for number, attribute in enumerate(attributes) if attribute.type is not None]
    first = np.cumsum(parts.counts) - parts.counts
    arrays = []
    for number, part in zip(shown, read.column.parts, strict=True):
        inner = parts.take(first[read.is_there] + number)
        arrays.append(_spread(arrow_array(part, inner, read.asked), read.is_there))
    return pa.StructArray.from_arrays(arrays, fields=read.fields, mask=pa.array(~read.is_there))


def _spread(array: pa.Array[Any], is_there: NDArray[np.bool_]) -> pa.Array[Any]:
    """Put nulls between an array's values."""
    if is_there.all():
        return array
    return array.take(pa.array(np.cumsum(is_there) - 1, mask=~is_there))


def _range(read: _Reading) -> pa.Array[Any]:
    flags = np.empty(len(read), np.uint8)
    read.check(_columns.range_flags(read.stored, flags))
    parts = _taken_apart(read)
    ranges = _ranges(read, flags[read.is_there], parts)
    return _spread(ranges, read.is_there)


def _multirange(read: _Reading) -> pa.Array[Any]:
    parts, values = _taken_apart(read), read.compact()
    counts = parts.counts // 2
    flags = np.empty(int(counts.sum()), np.uint8)
    if _columns.multirange_flags(values, counts[read.is_there], flags) != _columns.DONE:
        read.malformed(int(np.argmax(read.is_there)))
    ranges = replace(read, column=replace(read.column, arrow=cast("pa.ListType[Any]", read.column.arrow).value_type))
    return _lists(read, read.is_there, counts, _ranges(ranges, flags, parts))


def _ranges(read: _Reading, flags: NDArray[np.uint8], parts: _Parts) -> pa.StructArray:
    """Make one range for each byte of flags: an empty one has no parts, any other two."""
    is_empty = flags & _EMPTY != 0
    first = np.cumsum(np.where(is_empty, 0, 2)) - np.where(is_empty, 0, 2)
    bounds = []
    for side in (0, 1):
        bound_values = arrow_array(read.column.parts[0], parts.take(first[~is_empty] + side), read.asked)
        bounds.append(_spread(bound_values, ~is_empty))
    # A bound that is there, and null, does not fit its column: to leave it out would make the range another one.
    has_bound = [parts.stored.kind[first[~is_empty] + side] != NONE for side in (0, 1)]
    lost = np.zeros(len(flags), np.bool_)
    for bound, there in zip(bounds, has_bound, strict=True):
        lost[~is_empty] |= there & bound.is_null().to_numpy(zero_copy_only=False)[~is_empty]
    inclusive = [pa.array(flags & bit != 0) for bit in (_LOWER_INC, _UPPER_INC)]
    return pa.StructArray.from_arrays(
        [*bounds, *inclusive, pa.array(is_empty)], fields=read.fields, mask=pa.array(lost)
    )


def _vector(read: _Reading) -> pa.Array[Any]:
    offsets, size = np.empty(len(read) + 1, np.int32), int(read.stored.length[read.is_there].sum(dtype=np.int64))
    out = np.empty(size, np.uint8)
    read.check(_columns.gather_vectors(read.stored, offsets, out, 4))
    inner = pa.Array.from_buffers(pa.float32(), int(offsets[-1]), [None, arrow_buffer(out)])
    return pa.Array.from_buffers(read.column.arrow, len(read), [read.validity, arrow_buffer(offsets)], children=[inner])


def _variants(read: _Reading) -> pa.Array[Any]:
    session = read.asked.session
    if session.encoding != UTF8:
        raise DecodingError(
            f"JSON of {read.asked.place(0)} is in {session.encoding}, {read.column.type.name} is in UTF8",
            hint="read it as text",
        )
    written = variants(read.compact())
    if written.malformed is not None:
        read.malformed(int(np.flatnonzero(read.is_there)[written.malformed]))
    fits = np.zeros(len(read), np.uint8)
    fits[read.is_there] = written.fits
    valid = read.fitting(fits)
    sides = ((written.value, written.value_ends), (written.metadata, written.metadata_ends))
    parts = [_binary(data, ends, read.is_there) for data, ends in sides]
    return pa.StructArray.from_arrays(parts, fields=read.fields, mask=pa.array(~valid))


def _binary(data: NDArray[np.uint8], ends: NDArray[np.int64], is_there: NDArray[np.bool_]) -> pa.BinaryArray:
    """Make an array of values one after the other, nothing where there are none."""
    lengths = np.zeros(len(is_there), np.int64)
    lengths[is_there] = np.diff(ends)
    return binary_array(None, _offsets(lengths), data)


_READERS: dict[Form, Callable[[_Reading], pa.Array[Any]]] = {
    Form.WORDS: _words,
    Form.BOOLEAN: _boolean,
    Form.UNSIGNED: _unsigned,
    Form.DATE: _date,
    Form.TIME: _time,
    Form.TIMESTAMP: _timestamp,
    Form.DECIMAL: _decimal,
    Form.MONEY: _money,
    Form.INTERVAL: _interval,
    Form.UUID: _uuid,
    Form.BYTES: _bytes,
    Form.VERBATIM: _verbatim,
    Form.PRINTED: _printed,
    Form.ADDED: _added,
    Form.LIST: _list,
    Form.STRUCT: _struct,
    Form.RANGE: _range,
    Form.MULTIRANGE: _multirange,
    Form.VARIANT: _variants,
    Form.VECTOR: _vector,
}
