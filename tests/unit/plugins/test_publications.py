"""Changes and columns that publications publish (pgoutput's get_rel_sync_entry)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.catalog.relation import Publication, RelationSchema
from headwater.errors import HeadwaterWarning, PluginError
from headwater.pg.catcache_hashes import hash_any, hash_oid, hash_oids, oid_of_hash
from headwater.plugins.api import PluginContext
from headwater.plugins.pgoutput.plugin import PgOutput
from headwater.plugins.pgoutput.protocol import RelationMessage
from headwater.plugins.publication import published
from headwater.plugins.rows.plugin import RowChanges, TableChoice
from headwater.plugins.table_patterns import EVERY_TABLE
from headwater.plugins.test_decoding.plugin import TestDecoding
from headwater.reorder import announced_schemas as schema_memory
from headwater.reorder.announced_schemas import ENTRIES, LOADED, MEMBERS, NAMES, ROWS, SCHEMAS, member_subject
from headwater.reorder.wanted_changes import TRUNCATE_IF_DETACHED, WANT_BARE_DELETE
from unit.plugins.plugin_slices import INT4, MOOD, TEXT, Catalog, Published, make_column, make_table

MAJORS = (14, 15, 16, 17, 18, 19)
EVERYTHING = 1 | 2 | 4 | 16

COLUMNS = (make_column(1, "a", INT4), make_column(2, "gone", None), make_column(3, "b", TEXT))
TABLE = make_table(16400, "t", COLUMNS)
STORED = make_table(16401, "g", (*COLUMNS, make_column(4, "c", TEXT, "s"), make_column(5, "d", TEXT, "v")))
ROOT = make_table(16410, "root", COLUMNS[:1] + (make_column(2, "b", TEXT),), kind="p")
MIDDLE = make_table(16411, "middle", COLUMNS, kind="p", is_partition=True, ancestors=(16410,), namespace_oid=2300)
LEAF = make_table(16412, "leaf", COLUMNS, is_partition=True, ancestors=(16411, 16410))
RELATIONS = (TABLE, STORED, ROOT, MIDDLE, LEAF)


OF_PUBLICATIONS = ("tables", "schemas", "filtered", "lists", "excepted")
FLAGS = {"all_tables": False, "insert": True, "update": True, "delete": True, "truncate": True, "via_root": False}


def publication(name: str = "p", **more: Any) -> Published:
    """Make a publication of all actions, of no table unless said."""
    members = {key: more.pop(key) for key in OF_PUBLICATIONS if key in more}
    return Published(Publication(oid=17000 + hash_any(name.encode()), name=name, **(FLAGS | more)), **members)


def truncates_only(entry: Published) -> Published:
    return replace(entry, publication=replace(entry.publication, insert=False, update=False, delete=False))


def pgoutput(names: str, major: int) -> PgOutput:
    return PgOutput((("proto_version", "1"), ("publication_names", names)), PluginContext(major))


def wants(schema: RelationSchema, *publications: Published, major: int = 17) -> int:
    names = ",".join(entry.publication.name for entry in publications)
    return pgoutput(names, major).wants(schema, Catalog(RELATIONS, publications))


def sent(schema: RelationSchema, *publications: Published, major: int = 17) -> list[tuple[int, tuple[str, ...]]]:
    """Return relations and columns of the R messages."""
    names = ",".join(entry.publication.name for entry in publications)
    messages = pgoutput(names, major).schema_messages(schema, Catalog(RELATIONS, publications))
    read = [RelationMessage.parse(message) for message in messages if message[:1] == b"R"]
    return [(relation.oid, relation.columns) for relation in read]


def test_members_by_table_schema_and_all() -> None:
    assert wants(TABLE, publication(all_tables=True)) == EVERYTHING
    assert wants(TABLE, publication(tables=frozenset({16400}))) == EVERYTHING
    assert wants(TABLE, publication(schemas=frozenset({2200}))) == EVERYTHING
    assert wants(TABLE, publication(tables=frozenset({16401}))) == 0
    assert wants(TABLE) == 0


def test_tables_left_out_of_all() -> None:
    """Of a partition its root is what counts; another publication may have the table all the same."""
    without = publication(all_tables=True, excepted=frozenset({16400, 16410}))
    assert [wants(schema, without) for schema in (TABLE, STORED, ROOT, LEAF)] == [0, EVERYTHING, 0, 0]
    assert wants(TABLE, without, publication("q", tables=frozenset({16400}))) == EVERYTHING
    as_root: dict[str, Any] = {"all_tables": True, "via_root": True}
    assert sent(LEAF, publication(**as_root, excepted=frozenset({16412}))) == sent(LEAF, publication(**as_root))


def test_actions_add_up() -> None:
    inserts = publication("i", all_tables=True, update=False, delete=False, truncate=False)
    deletes = publication("d", tables=frozenset({16400}), insert=False, update=False, truncate=False)
    assert wants(TABLE, inserts, deletes) == 1 | 4


@pytest.mark.parametrize(
    "schema",
    [
        replace(TABLE, kind="m"),
        replace(TABLE, persistence="u"),
        replace(TABLE, oid=16383),
        replace(TABLE, rewrite_of=16400),
        replace(TABLE, kind="t"),
    ],
)
def test_what_cannot_be_published(schema: RelationSchema) -> None:
    assert wants(schema, publication(all_tables=True)) == 0


@pytest.mark.parametrize("major", MAJORS)
def test_a_missing_publication(major: int) -> None:
    plugin, catalog = pgoutput("p, Absent", major), Catalog(RELATIONS, (publication(all_tables=True),))
    if major >= 18:
        assert plugin.wants(TABLE, catalog) == EVERYTHING
        assert plugin.missing_publications(catalog) == ["absent"]
    else:
        with pytest.raises(PluginError, match=r'^publication "absent" does not exist$'):
            plugin.wants(TABLE, catalog)
        assert plugin.missing_publications(catalog) == []
    plugin.validate(catalog)
    assert plugin.wants(replace(TABLE, oid=16383), catalog) == 0


@pytest.mark.parametrize("major", MAJORS)
def test_no_publication_at_all_is_an_error(major: int) -> None:
    with pytest.raises(PluginError, match='publication "x" does not exist'):
        pgoutput("x,y", major).validate(Catalog())


@pytest.mark.parametrize("major", MAJORS)
def test_rows_of_a_missing_publication(major: int) -> None:
    catalog = Catalog(RELATIONS, (publication(all_tables=True),))
    rows = RowChanges(TableChoice(EVERY_TABLE), ("p", "absent"), major)
    rows.validate(catalog)
    if major >= 18:
        with pytest.warns(HeadwaterWarning, match='publication "absent" does not exist at some change'):
            assert rows.wants(TABLE, catalog) == EVERYTHING
    else:
        with pytest.raises(PluginError, match='publication "absent" does not exist'):
            rows.wants(TABLE, catalog)
    with pytest.raises(PluginError, match='publication "absent" does not exist; name a publication'):
        RowChanges(TableChoice(EVERY_TABLE), ("absent", "gone"), major).validate(catalog)


def test_partitions_are_published_with_their_ancestors() -> None:
    for members in ({"tables": frozenset({16410})}, {"schemas": frozenset({2300})}, {"all_tables": True}):
        assert wants(LEAF, publication(**members)) == EVERYTHING
        assert sent(LEAF, publication(**members)) == [(16412, ("a", "b"))]
        assert wants(MIDDLE, publication(**members)) == 0


def test_partitions_via_their_topmost_published_ancestor() -> None:
    for members, top in (
        ({"tables": frozenset({16411})}, 16411),
        ({"tables": frozenset({16410, 16411})}, 16410),
        ({"schemas": frozenset({2300})}, 16411),
        ({"all_tables": True}, 16410),
    ):
        via_root = publication(via_root=True, **members)
        assert wants(LEAF, via_root) == 1 | 2 | 4
        assert sent(LEAF, via_root) == [(top, ("a", "b")), (16412, ("a", "b"))]
    assert wants(ROOT, publication(all_tables=True, via_root=True)) == EVERYTHING


def test_the_higher_ancestor_wins_over_publications_and_drops_lower_lists() -> None:
    own = publication("own", tables=frozenset({16412}), lists={16412: (1,)})
    top = publication("top", via_root=True, tables=frozenset({16410}))
    for order in ((own, top), (top, own)):
        assert sent(LEAF, *order) == [(16410, ("a", "b")), (16412, ("a", "b"))]


def test_a_leaf_announces_the_columns_of_its_ancestors_attnums() -> None:
    via_root = publication(via_root=True, tables=frozenset({16410}), lists={16410: (2,)})
    assert sent(LEAF, via_root) == [(16410, ("b",)), (16412, ())]


@pytest.mark.parametrize("major", MAJORS)
def test_column_lists(major: int) -> None:
    listed = publication("l", tables=frozenset({16400}), lists={16400: (3,)})
    assert sent(TABLE, listed, major=major) == [(16400, ("b",))]
    message = 'cannot use different column lists for table "public.t" in different publications'
    with pytest.raises(PluginError, match=f"^{message}$"):
        wants(TABLE, listed, publication(all_tables=True), major=major)
    assert wants(TABLE, truncates_only(listed), publication("x"), major=major) == 16


@pytest.mark.parametrize("major", MAJORS)
def test_a_list_of_every_live_column(major: int) -> None:
    """15 counts the dropped column, so there the list is not the whole table; 14 has no lists."""
    full = publication("l", tables=frozenset({16400}), lists={16400: (1, 3)})
    both = (full, publication(all_tables=True))
    assert sent(TABLE, full, major=major) == [(16400, ("a", "b"))]
    if major <= 15:
        with pytest.raises(PluginError, match="different column lists"):
            wants(TABLE, *both, major=major)
    else:
        assert sent(TABLE, *both, major=major) == [(16400, ("a", "b"))]


@pytest.mark.parametrize("major", MAJORS)
def test_generated_columns(major: int) -> None:
    stored = publication("s", all_tables=True, generated="s")
    none = publication("n", all_tables=True)
    assert sent(STORED, none, major=major) == [(16401, ("a", "b"))]
    if major < 18:
        return
    assert sent(STORED, stored, major=major) == [(16401, ("a", "b", "c"))]
    assert wants(TABLE, stored, none, major=major) == EVERYTHING
    message = 'cannot use different values of publish_generated_columns for table "public.g" in different publications'
    with pytest.raises(PluginError, match=f"^{message}$"):
        wants(STORED, stored, none, major=major)
    listed = publication("l", tables=frozenset({16401}), lists={16401: (1, 3, 4)})
    assert sent(STORED, listed, stored, major=major) == [(16401, ("a", "b", "c"))]


def test_row_filters_are_joined_unless_overridden() -> None:
    filtered = publication("f", tables=frozenset({16400}), filtered=frozenset({16400}))
    other = publication("o", insert=False, tables=frozenset({16400}), filtered=frozenset({16400}))

    def filters(*publications: Published) -> tuple[int, int, int] | None:
        each = [entry.publication for entry in publications]
        sync_entry = published(TABLE, each, Catalog(RELATIONS, publications), 17)
        assert sync_entry.emits == EVERYTHING
        if sync_entry.filters is None:
            return None
        return len(sync_entry.filters.insert), len(sync_entry.filters.update), len(sync_entry.filters.delete)

    assert filters(filtered) == (1, 1, 1)
    assert filters(filtered, other) == (1, 2, 2)
    assert filters(filtered, publication(all_tables=True)) is None
    assert filters(replace(filtered, schemas=frozenset({2200}))) is None
    assert filters(filtered, publication("a", all_tables=True, delete=False)) == (0, 0, 1)
    assert wants(TABLE, truncates_only(filtered)) == 16


def test_messages_of_a_relation() -> None:
    columns = (make_column(1, "id", INT4), make_column(2, "m", MOOD))
    domain = replace(MOOD, oid=16600, name="moods", base=MOOD)
    table = make_table(
        16400, "t", (*columns, make_column(3, "d", domain), make_column(4, "e", replace(INT4, oid=9999)))
    )
    messages = pgoutput("p", 17).schema_messages(table, Catalog((table,), (publication(all_tables=True),)))
    expected = [
        b"Y\0\0\x40\x74shop\0mood\0",
        b"Y\0\0\x40\xd8shop\0mood\0",
        b"R\0\0\x40\x10public\0t\0d\0\4"
        b"\1id\0\0\0\0\x17\xff\xff\xff\xff"
        b"\0m\0\0\0\x40\x74\xff\xff\xff\xff"
        b"\0d\0\0\0\x40\xd8\xff\xff\xff\xff"
        b"\0e\0\0\0\x27\x0f\xff\xff\xff\xff",
    ]
    assert expected == messages


def test_key_flags_of_a_full_identity_and_the_catalogs_namespace() -> None:
    full = replace(TABLE, replica_identity="f", identity_columns=(), namespace="pg_catalog", namespace_oid=11)
    (message,) = pgoutput("p", 17).schema_messages(full, Catalog((full,), (publication(all_tables=True),)))
    expected = b"R\0\0\x40\x10\0t\0f\0\2\1a\0\0\0\0\x17\xff\xff\xff\xff\1b\0\0\0\0\x19\xff\xff\xff\xff"
    assert expected == message


def test_messages_that_are_not_rows() -> None:
    plugin = PgOutput((("proto_version", "1"), ("publication_names", "p"), ("messages", "on")), PluginContext(17))
    assert plugin.truncate((TABLE, STORED), True, True) == [b"T\0\0\0\2\3\0\0\x40\x10\0\0\x40\x11"]
    assert plugin.truncate((), True, False) == []
    assert plugin.message(258, True, b"pre", b"x\0y") == [b"M\1\0\0\0\0\0\0\1\2pre\0\0\0\0\3x\0y"]
    assert plugin.wants_message(True)
    assert not pgoutput("p", 17).wants_message(False)
    assert plugin.origin(1, "node", 258) == [b"O\0\0\0\0\0\0\1\2node\0"]


def test_lines_that_are_not_rows() -> None:
    plugin = TestDecoding((), PluginContext(17))
    quoted = replace(TABLE, name="select", namespace="My")
    assert plugin.truncate((TABLE, quoted), False, False) == [b'table public.t, "My"."select": TRUNCATE: (no-flags)']
    assert plugin.truncate((TABLE,), True, True) == [b"table public.t: TRUNCATE: restart_seqs cascade"]
    expected = b"message: transactional: 0 prefix: pre, sz: 3 content:x\0y"
    assert [expected] == plugin.message(258, False, b"pre", b"x\0y")


def test_test_decoding_wants_logical_changes() -> None:
    heap = replace(TABLE, oid=16500, name="pg_temp_16400", rewrite_of=16400)
    plain = TestDecoding((), PluginContext(17))
    rewrites = TestDecoding((("include-rewrites", "1"),), PluginContext(17))
    catalog = Catalog((TABLE, heap))
    assert [plain.wants(schema, catalog) for schema in (TABLE, heap)] == [31, 0]
    assert [rewrites.wants(schema, catalog) for schema in (TABLE, heap)] == [31, 31]
    assert [rewrites.schema_messages(schema, catalog) for schema in (TABLE, heap)] == [[], [b"public.t"]]
    for other in (replace(TABLE, kind="S"), replace(TABLE, oid=1259), replace(TABLE, persistence="t")):
        assert plain.wants(other, catalog) == 0


@dataclass(frozen=True)
class Sinval:
    """An invalidation message."""

    id: int
    value: int


@pytest.mark.parametrize("major", MAJORS)
def test_what_makes_pgoutput_forget(major: int) -> None:
    plugin = pgoutput("p", major)

    def entries(kind: int, value: int) -> list[int]:
        return [relation for memory, relation in plugin.forgets(Sinval(kind, value)) if memory == ENTRIES]

    assert [entries(-2, oid) for oid in (16400, 0)] == ([[], []] if major == 14 else [[16400], [0]])
    if major == 14:
        assert [plugin.forgets(Sinval(-2, oid)) for oid in (16400, 0)] == [[(schema_memory.ANNOUNCED, 16400)], []]
    assert ([16400] if major >= 18 else []) == entries(-6, 16400)
    assert [entries(kind, 16400) for kind in (-3, -4, -5)] == [[]] * 3
    before_18 = [0] if major < 18 else []
    assert [before_18] * 2 == [entries(-1, oid) for oid in (6104, 6106)]
    assert ([0] if major in (15, 16, 17) else []) == entries(-1, 6237)
    assert ([] if major in (14, 15) else [0]) == entries(-1, 2615)
    assert entries(-1, 1259) == []
    catcaches = {14: {45, 47}, 15: {48, 49, 51}, 16: {36, 48, 49, 51}, 17: {36, 48, 49, 51}, 18: {38}, 19: {38}}
    assert catcaches[major] == {kind for kind in range(100) if entries(kind, 12345) == [0]}
    assert TestDecoding((), PluginContext(major)).forgets(Sinval(-2, 16400)) == []


@pytest.mark.parametrize("major", MAJORS)
def test_what_is_looked_up_anew(major: int) -> None:
    plugin = pgoutput('p,q,"é",p', major)

    def looked_up(kind: int, value: int) -> list[tuple[int, int]]:
        return [subject for subject in plugin.forgets(Sinval(kind, value)) if subject[0] != ENTRIES]

    by_name, by_oid, relations, schemas = {14: (44, 45, 47, None), 18: (48, 51, 53, 50), 19: (48, 51, 53, 50)}.get(
        major, (46, 49, 51, 48)
    )
    assert looked_up(by_name, hash_any(b"p")) == [(NAMES, 1), (NAMES, 4)]
    assert looked_up(by_name, hash_any("é".encode())) == [(NAMES, 3)]
    assert looked_up(by_name, hash_any(b"another")) == []
    assert looked_up(by_oid, hash_oid(16700)) == [(LOADED, 0), (ROWS, 16700)]
    member = hash_oids(16400, 16700)
    assert looked_up(relations, member) == [(schema_memory.RELATIONS, 0), (MEMBERS, member_subject(member))]
    if schemas is not None:
        assert looked_up(schemas, 12345) == [(SCHEMAS, 0)]
    expected = [[(LOADED, 0), (NAMES, 0), (ROWS, 0)], [(schema_memory.RELATIONS, 0), (MEMBERS, 0)], [(SCHEMAS, 0)], []]
    assert [looked_up(-1, oid) for oid in (6104, 6106, 6237, 2615)] == expected


@given(st.integers(0, 2**32 - 1))
def test_an_oid_is_found_by_its_hash(oid: int) -> None:
    assert oid_of_hash(hash_oid(oid)) == oid
    assert 0 <= hash_oid(oid) < 2**32


@pytest.mark.parametrize("major", MAJORS)
def test_messages_that_are_not_heeded_make_nothing_forget(major: int) -> None:
    plugin = pgoutput("p", major)
    heeded = {
        kind for kind in range(-6, 128) for value in (0, 6104, hash_any(b"p")) if plugin.forgets(Sinval(kind, value))
    }
    assert heeded == plugin.traits.heeded
    assert TestDecoding((), PluginContext(major)).traits.heeded == frozenset()


def test_a_relation_is_described_as_by_wants_and_messages() -> None:
    catalog = Catalog(RELATIONS, (publication(via_root=True, tables=frozenset({16410})),))
    for schema in (*RELATIONS, replace(TABLE, oid=16383)):
        plugin = pgoutput("p", 17)
        wants = plugin.wants(schema, catalog)
        messages = tuple(plugin.schema_messages(schema, catalog)) if wants else ()
        assert plugin.describe(schema, catalog) == (wants, messages, None)


def test_14_goes_on_as_a_partition_was_published() -> None:
    """The entry outlives that it was a partition: it is still sent as the root, and now its truncates are, too."""
    catalog, plugin = Catalog(RELATIONS, [publication(all_tables=True, via_root=True)]), pgoutput("p", 14)
    description = plugin.describe(LEAF, catalog)
    assert description[0] == 1 | 2 | 4 | WANT_BARE_DELETE | TRUNCATE_IF_DETACHED
    assert plugin.published_as(LEAF, description[1]) == ROOT.oid
    detached = replace(LEAF, name="alone", is_partition=False, ancestors=())
    now = plugin.renewed(detached, catalog, description)
    messages = now.messages
    assert now.wants == EVERYTHING | WANT_BARE_DELETE
    assert [RelationMessage.parse(message).oid for message in messages] == [ROOT.oid, LEAF.oid]
    assert b"alone" in messages[1]
    assert plugin.renewed(LEAF, catalog, now) == description


def test_14_sends_a_partition_unannounced_only_if_its_rows_are_the_same() -> None:
    plugin, catalog = pgoutput("p", 14), Catalog(RELATIONS)
    alike = replace(LEAF, columns=ROOT.columns)
    plugin.require_sendable(LEAF, catalog, ROOT.oid, LEAF.oid)
    plugin.require_sendable(alike, catalog, LEAF.oid, ROOT.oid)
    for schema, announced_as in ((LEAF, LEAF.oid), (alike, MIDDLE.oid)):
        with pytest.raises(PluginError, match=r'sends rows of partition "public\.leaf" as such of "public\.root"'):
            plugin.require_sendable(schema, catalog, announced_as, ROOT.oid)


def test_14_reads_rows_of_a_partition_without_values_of_added_columns() -> None:
    catalog = Catalog(RELATIONS, [publication(all_tables=True, via_root=True)])
    schema = replace(LEAF, columns=(*COLUMNS[:2], replace(COLUMNS[2], missing=b"x")))
    for major, expected in ((14, None), (15, b"x")):
        plugin = pgoutput("p", major)
        via_root = plugin.schema_messages(schema, catalog)
        assert plugin.read_as(schema, via_root).columns[2].missing == expected
        assert plugin.read_as(schema, via_root[1:]) == schema
