"""Tables of one typed column on a real server, and their stored datums read back by a small plain reader.

Columns are stored PLAIN, so that each varlena is inline with a 4-byte header, except where a test wants short headers.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from headwater.catalog.relation import Column, ObjectNames, TypeInfo
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.rows.send._send import type_send
from headwater.rows.session import SessionSettings
from headwater.rows.text._text import type_text
from headwater.rows.text_tables import build_text_tables, without_send_function
from server_names import NAMES, names_of_objects

PAGE = 8192
_TYPE_QUERY = """
    select t.oid::int8, t.typname, n.nspname, format_type(t.oid, null), t.typtype::text, t.typlen, t.typalign::text,
           t.typbyval, t.typdelim::text, t.typrelid::int8, t.typbasetype::int8,
           case when t.typsubscript::text = 'array_subscript_handler' then t.typelem::int8 else 0 end,
           coalesce((select rngsubtype::int8 from pg_range where t.oid in (rngtypid, rngmultitypid)), 0),
           case when t.oid >= 16384 and t.typtype = 'b' then case prolang when 12 then '' when 13 then
               regexp_replace(probin, '.*/|[.]so$', '', 'g') || ':' end || prosrc else '' end,
           case when t.oid >= 16384 and t.typtype = 'b' then coalesce((select case prolang when 12 then '' when 13 then
               regexp_replace(probin, '.*/|[.]so$', '', 'g') || ':' end || prosrc
               from pg_proc where oid = t.typsend), '') else '' end,
           array(select (oid::int8)::text from pg_enum where enumtypid = t.oid order by oid),
           array(select enumlabel::text from pg_enum where enumtypid = t.oid order by oid)
    from pg_type t join pg_namespace n on n.oid = t.typnamespace join pg_proc p on p.oid = t.typoutput where t.oid = %s
"""
_ATTRIBUTES = """
    select attname, atttypid::int8, atttypmod, attlen, attalign::text, attisdropped
    from pg_attribute where attrelid = %s and attnum > 0 order by attnum
"""


def type_info(connection: psycopg.Connection[Any], oid: int) -> TypeInfo:
    """Read a type as the server's catalog has it; fast defaults of a composite's attributes are left out."""
    row = connection.execute(_TYPE_QUERY, (oid,)).fetchone()
    assert row is not None
    (
        oid,
        name,
        namespace,
        display,
        kind,
        length,
        align,
        by_value,
        delimiter,
        *inner,
        output,
        send,
        label_oids,
        labels,
    ) = row
    relation, *inner_oids = inner
    base, element, subtype = (type_info(connection, other) if other else None for other in inner_oids)
    if base is not None and base.base is not None:
        base = base.base
    pairs = tuple((int(label_oid), label) for label_oid, label in zip(label_oids, labels, strict=True))
    attributes = attributes_of(connection, relation) if kind == "c" else ()
    names = _names(connection, oid) if oid in NAMES else None
    return TypeInfo(
        *(oid, name, namespace, display, kind, length, align, by_value, base, element, delimiter, pairs),
        *(subtype, attributes, output, send, names),
    )


def _names(connection: psycopg.Connection[Any], oid: int) -> ObjectNames:
    """Read what values of a type of OIDs print as, now."""
    names = names_of_objects(connection, oid)
    oids = sorted(names)
    return ObjectNames(struct.pack(f"<{len(oids)}I", *oids), "\0".join(names[oid] for oid in oids))


def attributes_of(connection: psycopg.Connection[Any], relation: int) -> tuple[Column, ...]:
    """Read the columns of a composite's relation."""
    rows = connection.execute(_ATTRIBUTES, (relation,)).fetchall()
    return tuple(
        Column(number, name, None if dropped else type_info(connection, oid), typmod, length, align, dropped)
        for number, (name, oid, typmod, length, align, dropped) in enumerate(rows, start=1)
    )


def store(
    connection: psycopg.Connection[Any], table: str, type_name: str, values: Sequence[str | None], *, plain: bool = True
) -> TypeInfo:
    """Make a table of the values, in order, and return the column's type."""
    connection.execute(f"create table {table} (id int not null, value {type_name}) with (toast_tuple_target = 8160)")
    oid, storage = connection.execute(
        "select atttypid, attstorage::text from pg_attribute where attrelid = %s::regclass and attname = 'value'",
        (table,),
    ).fetchone() or (0, "")
    if storage != "p":
        connection.execute(f"alter table {table} alter value set storage {'plain' if plain else 'external'}")
    with connection.cursor().copy(f"copy {table} from stdin") as copy:
        for number, value in enumerate(values):
            copy.write_row((number, value))
    return type_info(connection, oid)


def stored_datums(path: Path, type: TypeInfo) -> Iterator[tuple[int, bytes | None]]:
    """Give the (id, payload) pairs of a table file: payloads without varlena header, None for NULL."""
    data = path.read_bytes()
    for page in range(0, len(data), PAGE):
        lower = struct.unpack_from("<H", data, page + 12)[0]
        for pointer_at in range(page + 24, page + lower, 4):
            pointer = struct.unpack_from("<I", data, pointer_at)[0]
            if pointer >> 15 & 3 == 1:
                yield _datum(data[page + (pointer & 0x7FFF) : page + (pointer & 0x7FFF) + (pointer >> 17)], type)


def _datum(row: bytes, type: TypeInfo) -> tuple[int, bytes | None]:
    infomask, hoff = struct.unpack_from("<HB", row, 20)
    number = struct.unpack_from("<i", row, hoff)[0]
    if infomask & 1 and not row[23] & 2:
        return number, None
    at = hoff + 4
    align = {"c": 1, "s": 2, "i": 4, "d": 8}[type.typalign]
    aligned = (at + align - 1) // align * align
    if type.typlen > 0:
        return number, row[aligned : aligned + type.typlen]
    if row[at] & 1:
        return number, row[at + 1 : at + (row[at] >> 1)]
    size = struct.unpack_from("<I", row, aligned)[0]
    assert size & 3 == 0, "the value is stored compressed"
    return number, row[aligned + 4 : aligned + (size >> 2)]


def printed(
    type: TypeInfo, payloads: Sequence[bytes], session: SessionSettings, *, binary: bool = False
) -> list[bytes | int]:
    """Return our text of each payload, or its binary form, or the kernel's status."""
    tables = build_text_tables([type], session, binary=binary)
    kernel = type_send if binary else type_text
    out = np.zeros(1 << 20, dtype=np.uint8)
    results: list[bytes | int] = []
    for payload in payloads:
        source = np.frombuffer(payload, dtype=np.uint8).copy()
        end = kernel(tables, 0, source, 0, len(payload), out, 0)
        results.append(out[:end].tobytes() if end >= 0 else end)
    return results


def server_text(connection: psycopg.Connection[Any], table: str) -> dict[int, bytes | None]:
    """Return what the output function prints (a cast to text may differ: bool, char(n)), by id."""
    with connection.cursor() as cursor:
        result = cursor.execute(f"select id, value from {table}").pgresult
        assert result is not None
        return {int(result.get_value(i, 0) or 0): result.get_value(i, 1) for i in range(result.ntuples)}


def server_binary(connection: psycopg.Connection[Any], table: str) -> dict[int, bytes]:
    """Return what the send function makes of the values, by id."""
    with connection.cursor(binary=True) as cursor:
        result = cursor.execute(f"select id, value from {table}").pgresult
        assert result is not None
        pairs = [(result.get_value(i, 0), result.get_value(i, 1)) for i in range(result.ntuples)]
        return {int.from_bytes(number or b""): value for number, value in pairs if value is not None}


def file_of(server: EmbeddedPostgres, connection: psycopg.Connection[Any], table: str) -> Path:
    connection.execute("checkpoint")
    row = connection.execute("select pg_relation_filepath(%s)", (table,)).fetchone()
    assert row is not None
    return server.data_directory / os.fsdecode(row[0])  # bytes where the client's encoding is SQL_ASCII


def compare(
    server: EmbeddedPostgres, connection: psycopg.Connection[Any], table: str, type: TypeInfo, session: SessionSettings
) -> int:
    """Compare every stored value's text; returns how many there were."""
    expected = server_text(connection, table)
    stored = dict(stored_datums(file_of(server, connection, table), type))
    numbers = [number for number, payload in stored.items() if payload is not None]
    actual = dict(zip(numbers, printed(type, [stored[n] or b"" for n in numbers], session), strict=True))
    assert {n for n, text in expected.items() if text is not None} == set(numbers)
    assert {n: expected[n] for n in numbers} == actual
    if without_send_function(type) is not None:
        return len(numbers)
    payloads = [stored[number] or b"" for number in numbers]
    sent = dict(zip(numbers, printed(type, payloads, session, binary=True), strict=True))
    assert server_binary(connection, table) == sent
    return len(numbers)
