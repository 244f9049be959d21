"""Views: what they remember must not differ from what they would find."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.catalog.relation import PublicationMember, RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.versions import OwnCommands
from headwater.pg.catalogs import (
    PG_ATTRIBUTE,
    PG_CLASS,
    PG_INDEX,
    PG_INHERITS,
    PG_PUBLICATION,
    PG_PUBLICATION_NAMESPACE,
    PG_PUBLICATION_REL,
)
from unit.catalog.made_catalog import Log, attribute_row, class_row, make_store, row, system_pages

T = 16384


@st.composite
def histories(draw: st.DrawFn) -> tuple[CatalogStore, list[int], list[OwnCommands]]:
    """Draw a table renamed again and again by transactions that commit or not.

    Positions and own views to look from come with it.
    """
    store = make_store(system_pages())
    log = Log(store)
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "start", 1), init=True)
    log.insert(900, PG_ATTRIBUTE, (0, 1), attribute_row(T, 1, "a"), init=True)
    begin = log.commit(900) + 0x80
    place, own = 1, []
    for number in range(draw(st.integers(1, 8))):
        xid = 901 + number
        commands = draw(st.integers(1, 3))
        first = place
        for command in range(commands):
            log.new_cid(xid, PG_CLASS, (0, place), command - 1 if command else 0xFFFFFFFF, command)
            log.new_cid(xid, PG_CLASS, (0, place + 1), command)
            log.update(xid, PG_CLASS, (0, place), (0, place + 1), class_row(T, f"n{number}.{command}", 1))
            place += 1
        own.append(OwnCommands(frozenset({xid}), draw(st.integers(0, 4))))
        if draw(st.booleans()):
            log.commit(xid)
        else:
            store.abort([xid])
            place = first
            log.prune(PG_CLASS, 0, {}, list(range(first + 1, first + commands + 1)))
    return store, list(range(begin, log.lsn + 0x200, 0x100)), own


@settings(max_examples=50)
@given(histories(), st.data())
def test_remembered_views_equal_fresh_ones(
    history: tuple[CatalogStore, list[int], list[OwnCommands]], data: st.DataObject
) -> None:
    store, lsns, owns = history
    looks = data.draw(st.lists(st.tuples(st.sampled_from(lsns), st.sampled_from([None, *owns])), max_size=30))
    remembered = [store.view(lsn, own).relation_by_filenode(1663, T) for lsn, own in looks]
    fresh: list[RelationSchema | None] = []
    for lsn, own in looks:
        store.abort([])
        fresh.append(store.view(lsn, own).relation_by_filenode(1663, T))
    assert fresh == remembered


def test_thousands_of_views_are_quick() -> None:
    store = make_store(system_pages())
    log = Log(store)
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "t"), init=True)
    log.commit(900)
    for number in range(1000):
        place = number % 30
        log.update(901 + number, PG_CLASS, (0, place + 1), (0, place + 2), class_row(T, f"t{number}"))
        log.commit(901 + number)
        if place == 29:
            log.insert(0, PG_CLASS, (0, 1), class_row(T, f"t{number}"))
            store.versions(("pg_class", "oid", T))[-1].inserter = 901 + number
            store.versions(("pg_class", "oid", T))[-2].deleters[901 + number] = 0
    lsns = range(log.lsn - 100_000, log.lsn)
    began = time.perf_counter()
    for lsn in lsns:
        store.view(lsn).relation_by_filenode(1663, T)
    assert time.perf_counter() - began < 3


def index_row(oid: int, relation: int, columns: tuple[int, ...], **flags: int) -> object:
    vector = b"".join(n.to_bytes(2, "little") for n in columns)
    head = b"".join(n.to_bytes(4, "little") for n in (1, 0, 21, len(columns), 0))
    value = ((4 + len(head) + len(vector)) << 2).to_bytes(4, "little") + head + vector
    values = {"indexrelid": oid, "indrelid": relation, "indnatts": len(columns), "indnkeyatts": len(columns)}
    good = {"indisunique": 1, "indimmediate": 1, "indisvalid": 1, "indislive": 1, "indkey": value}
    return {**values, **good, **flags}


def identity(store: CatalogStore, lsn: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    schema = store.view(lsn).relation(T)
    assert schema is not None
    return schema.identity_columns, schema.primary_key_columns


def test_identity_columns() -> None:
    store = make_store(system_pages())
    log = Log(store)
    log.insert(900, PG_CLASS, (0, 1), class_row(T, "t"), init=True)
    keys = (
        index_row(T + 1, T, (2, 1), indisprimary=1),
        index_row(T + 2, T, (3,), indisreplident=1),
        index_row(T + 3, T, (4,), indisprimary=1, indislive=0),
        index_row(T + 4, T, (5,), indisreplident=1, indisvalid=0),
    )
    for offnum, values in enumerate(keys, 1):
        assert isinstance(values, dict)
        log.insert(900, PG_INDEX, (0, offnum), row(PG_INDEX, values), init=offnum == 1)
    default = log.commit(900)
    identities = [identity(store, default + 1)]
    for offnum, letter in enumerate((b"i", b"f", b"n"), 1):
        changed = class_row(T, "t", relreplident=letter)
        log.update(900 + offnum, PG_CLASS, (0, offnum), (0, offnum + 1), changed)
        identities.append(identity(store, log.commit(900 + offnum) + 1))
    assert identities == [((2, 1), (2, 1)), ((3,), (2, 1)), ((), (2, 1)), ((), (2, 1))]


def test_ancestors_stop_at_a_detaching_partition() -> None:
    store = make_store(system_pages())
    log = Log(store)
    for offnum, oid in enumerate((T, T + 1, T + 2), 1):
        log.insert(900, PG_CLASS, (0, offnum), class_row(oid, f"t{oid}", relispartition=oid > T), init=offnum == 1)
    for offnum, oid in enumerate((T + 2, T + 1), 1):
        parent = row(PG_INHERITS, {"inhrelid": oid, "inhparent": oid - 1, "inhseqno": 1})
        log.insert(900, PG_INHERITS, (0, offnum), parent, init=offnum == 1)
    attached = log.commit(900)
    detaching = row(PG_INHERITS, {"inhrelid": T + 1, "inhparent": T, "inhseqno": 1, "inhdetachpending": 1})
    log.update(901, PG_INHERITS, (0, 2), (0, 3), detaching)
    pending = log.commit(901)
    leaves = [store.view(lsn + 1).relation(T + 2) for lsn in (attached, pending)]
    assert [leaf.ancestors for leaf in leaves if leaf] == [(T + 1, T), (T + 1,)]


def test_publication_by_name() -> None:
    store = make_store(system_pages())
    log = Log(store)
    flags = {"pubinsert": 1, "pubtruncate": 1}
    log.insert(
        900, PG_PUBLICATION, (0, 1), row(PG_PUBLICATION, {"oid": T, "pubname": "größe".encode(), **flags}), init=True
    )
    view = store.view(log.commit(900) + 1)
    publication = view.publication("größe")
    assert publication is not None
    assert (publication.insert, publication.update, publication.truncate, publication.generated) == (
        True,
        False,
        True,
        "n",
    )
    assert view.publication("grosse") is None


def test_publications_by_member() -> None:
    store = make_store(system_pages())
    log = Log(store)
    vector = (2).to_bytes(2, "little") + (1).to_bytes(2, "little")
    head = b"".join(n.to_bytes(4, "little") for n in (1, 0, 21, 2, 0))
    columns = ((4 + len(head) + len(vector)) << 2).to_bytes(4, "little") + head + vector
    rows: tuple[dict[str, int | bytes], ...] = (
        {"oid": T + 1, "prpubid": T + 9, "prrelid": T, "prattrs": columns},
        {"oid": T + 2, "prpubid": T + 8, "prrelid": T, "prqual": b"\x0bqual"},
        {"oid": T + 3, "prpubid": T + 8, "prrelid": T + 4},
    )
    for offnum, values in enumerate(rows, 1):
        log.insert(900, PG_PUBLICATION_REL, (0, offnum), row(PG_PUBLICATION_REL, values), init=offnum == 1)
    for offnum, publication in enumerate((T + 9, T + 8), 1):
        data = row(PG_PUBLICATION_NAMESPACE, {"oid": T + 20 + offnum, "pnpubid": publication, "pnnspid": 2200})
        log.insert(900, PG_PUBLICATION_NAMESPACE, (0, offnum), data, init=offnum == 1)
    made = log.commit(900)
    log.delete(901, PG_PUBLICATION_REL, (0, 2))
    log.delete(901, PG_PUBLICATION_NAMESPACE, (0, 1))
    gone = log.commit(901)
    views = [store.view(lsn + 1) for lsn in (made, gone)]
    assert [view.relation_publications(T) for view in views] == [(T + 8, T + 9), (T + 9,)]
    of_one, of_other = PublicationMember(None, "qual"), PublicationMember((2, 1))
    assert [view.publication_member(T, T + 8) for view in views] == [of_one, None]
    assert [view.publication_member(T, T + 9) for view in views] == [of_other, of_other]
    assert [view.schema_publications(2200) for view in views] == [(T + 8, T + 9), (T + 8,)]
    assert (views[0].relation_publications(T + 5), views[0].schema_publications(11)) == ((), ())
