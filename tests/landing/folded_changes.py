"""Change tables folded up: the rows that their changes lead to, up to one LSN and then another.

What the changes do not tell is left out: values that ALTER TABLE writes, or that a column gets when it is added, are
none of them. So a value counts only if its row was written when the column had been seen as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from landing.mirrors import HeldColumn, Rows, plain

Row = Mapping[str, Any]


def in_order(changes: Iterable[Row]) -> list[Row]:
    """Sort changes into their order."""
    return sorted(changes, key=_place)


def _place(row: Row) -> tuple[Any, ...]:
    is_after = row["_change_type"] != "update_preimage"
    return row["_commit_lsn"], row["_change_type"] != "read", row["_lsn"], row["_seq"], is_after


def _held(row: Row, names: Sequence[str]) -> Any:
    """Return the value of a column that has several in the lake."""
    return next((row[name] for name in reversed(names) if row[name] is not None), None)


class FoldedByKey:
    """Rows that a key tells apart.

    Args:
        changes: in their order.
        key: of each of the key's columns the names in the lake, in their order: a row has a value in one of them.
        is_partitioned: rows are of the relation that they name.
    """

    def __init__(self, changes: Sequence[Row], key: Sequence[Sequence[str]], *, is_partitioned: bool) -> None:
        self._changes, self._key, self._is_partitioned, self._next = changes, key, is_partitioned, 0
        self._moved: Row | None = None
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}

    def go(self, lsn: int) -> None:
        """Apply what has committed before an LSN."""
        while self._next < len(self._changes) and self._changes[self._next]["_commit_lsn"] < lsn:
            self._apply(self._changes[self._next])
            self._next += 1

    def _apply(self, row: Row) -> None:
        kind, place = row["_change_type"], tuple(_held(row, names) for names in self._key)
        if kind == "truncate":
            gone = row["_table"] if self._is_partitioned else None
            self.rows = {} if gone is None else {at: held for at, held in self.rows.items() if held["_table"] != gone}
        elif kind in ("delete", "update_preimage"):
            self._moved = self.rows.pop(place)
        else:
            if kind == "update_postimage":
                before = self.rows.pop(place) if place in self.rows else self._moved
            else:
                assert place not in self.rows, (kind, place)
                assert not row["_unchanged"]
                before = None
            self._moved = None
            assert before is not None or kind != "update_postimage", place
            self.rows[place] = dict(row) | {name: (before or {})[name] for name in row["_unchanged"]}

    def held(self, names: Sequence[str]) -> Rows:
        """Return the rows, by some of their columns."""
        return plain(tuple(row[name] for name in names) for row in self.rows.values())

    def differences(
        self,
        expected: Rows,
        columns: Sequence[HeldColumn],
        names: Mapping[int, Sequence[str]],
        seen: Mapping[tuple[int, str], int],
        last: Container[tuple[int, str]],
        relations: frozenset[str],
    ) -> list[str]:
        """List what is not as the server has it.

        Args:
            expected: the server's rows, by its columns.
            columns: they; names: in the lake, by their numbers, in their order.
            seen: since which LSN a column is known to be as it is; last: columns as they are in the end. A value of a
                column that was another one may have landed as what it became then, and is not compared.
            relations: that there are.
        """
        mine = {
            place: row for place, row in self.rows.items() if not self._is_partitioned or row["_table"] in relations
        }
        keys = [next(i for i, column in enumerate(columns) if names.get(column.number) == own) for own in self._key]
        wanted = {tuple(row[i] for i in keys): row for row in expected}
        ours = {next(iter(plain([place]))): row for place, row in mine.items()}
        lines = [f"{place}: missing" for place in wanted.keys() - ours.keys()]
        lines += [f"{place}: not on the server" for place in ours.keys() - wanted.keys()]
        for place in wanted.keys() & ours.keys():
            row = ours[place]
            for value, column in zip(wanted[place], columns, strict=True):
                if seen[column.number, column.type] > row["_commit_lsn"] or column.number not in names:
                    continue
                *earlier, newest = names[column.number]
                if earlier and (column.number, column.type) not in last and row[newest] is not None:
                    continue
                own = next(iter(plain([(_held(row, names[column.number]),)])))[0]
                if own != value:
                    lines.append(f"{place}.{column.name}: expected {value!r}, found {own!r}")
        return lines


class FoldedWholes:
    """Rows that nothing but their values tells apart; of columns that they have always had.

    Args:
        changes: in their order.
        names: of the columns in the lake; is_partitioned: rows are of the relation that they name.
    """

    def __init__(self, changes: Sequence[Row], names: Sequence[str], *, is_partitioned: bool) -> None:
        self._changes, self._names, self._is_partitioned, self._next = changes, names, is_partitioned, 0
        self._rows: dict[str, Rows] = {}
        self._before: Row = {}

    def go(self, lsn: int) -> None:
        """Apply what has committed before an LSN."""
        while self._next < len(self._changes) and self._changes[self._next]["_commit_lsn"] < lsn:
            self._apply(self._changes[self._next])
            self._next += 1

    def _apply(self, row: Row) -> None:
        kind, table = row["_change_type"], row["_table"] if self._is_partitioned else ""
        rows = self._rows.setdefault(table, Counter())
        given = [self._before[name] if name in row["_unchanged"] else row[name] for name in self._names]
        own = plain([tuple(given)])
        self._before = row if kind == "update_preimage" else {}
        if kind == "truncate":
            rows.clear()
        elif kind in ("delete", "update_preimage"):
            assert rows >= own, (table, own)
            rows -= own
            self._rows[table] = rows
        else:
            rows.update(own)

    def held(self, _names: Sequence[str] = ()) -> Rows:
        """Return the rows, by their columns."""
        total: Rows = Counter()
        for rows in self._rows.values():
            total.update(rows)
        return total

    def differences(self, expected: Rows) -> list[str]:
        """List what is not as the server has it, by these columns."""
        ours = self.held()
        return [] if ours == expected else [f"expected {expected - ours}, found {ours - expected}"]
