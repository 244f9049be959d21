"""Plain twin of what a schema-sending plugin remembers: RelationSyncCache and the caches it asks, step by step.

Also a catalog whose every change is announced by messages, as a server's is, and random sessions that change it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from headwater.catalog.relation import Publication, PublicationMember, RelationSchema
from headwater.errors import PluginError
from headwater.pg.catcache_hashes import hash_oids
from headwater.reorder.announced_schemas import (
    ANNOUNCED,
    ENTRIES,
    LOADED,
    MEMBERS,
    MEMORIES,
    NAMES,
    RELATIONS,
    ROWS,
    SCHEMAS,
    Subject,
    member_subject,
)

GIVEN = ("p", "q", "p")
PUBLICATIONS = {"p": 1, "q": 2, "r": 3}
TABLES = (101, 102, 103, 104)
PARTITIONS = (103, 104)
ROOTS = (105, 106)
NAMESPACES = (11, 12)
DATABASE = 5

CHANGE, TRUNCATE, DEFINE, TELL, COMMIT, ABORT = range(6)


@dataclass(frozen=True)
class Event:
    """A record of the log.

    Attributes:
        lsn: its place; kind: CHANGE and so on; xid: 0 for none.
        relations: OIDs touched; key, value: what of the catalog is set; subjects: what messages are about.
        is_rolled_back: it is of a subtransaction that is rolled back before the transaction ends.
    """

    lsn: int
    kind: int
    xid: int
    relations: tuple[int, ...] = ()
    key: tuple[str, Any] = ("", 0)
    value: Any = None
    subjects: tuple[Subject, ...] = ()
    is_rolled_back: bool = False


@dataclass
class PlainCatalog:
    """Values by key, each since its transaction set it or committed.

    Attributes:
        versions: (LSN, xid, value) by key, in LSN order; commits: LSN by xid.
    """

    versions: dict[tuple[str, Any], list[tuple[int, int, Any]]] = field(default_factory=dict)
    commits: dict[int, int] = field(default_factory=dict)

    def read(self, log: list[Event]) -> None:
        """Read all of a log."""
        for event in log:
            if event.kind == DEFINE and not event.is_rolled_back:
                self.versions.setdefault(event.key, []).append((event.lsn, event.xid, event.value))
            elif event.kind == COMMIT:
                self.commits[event.xid] = event.lsn

    def view(self, xid: int, lsn: int) -> PlainView:
        return PlainView(self, xid, lsn)


@dataclass(frozen=True)
class PlainView:
    """The catalog as a transaction (0: none) sees it."""

    catalog: PlainCatalog
    xid: int
    lsn: int

    def _value(self, kind: str, name: Any, default: Any) -> Any:
        latest, since = default, -1
        for at, xid, value in self.catalog.versions.get((kind, name), ()):
            visible = at if xid == self.xid else self.catalog.commits.get(xid, 1 << 60)
            if visible < self.lsn and visible >= since:
                latest, since = value, visible
        return latest

    def publication(self, name: str) -> Publication | None:
        return self.publication_by_oid(self._value("names", 0, PUBLICATIONS)[name])

    def publication_by_oid(self, oid: int) -> Publication | None:
        flags, names = self._value("publication", oid, None), self._value("names", 0, PUBLICATIONS)
        name = next(name for name, named_oid in names.items() if named_oid == oid)
        return None if flags is None else Publication(oid, name, False, *flags)

    def relation_publications(self, oid: int) -> tuple[int, ...]:
        return tuple(publication for publication, _ in self._value("members", oid, ()))

    def publication_member(self, relation: int, publication: int) -> PublicationMember | None:
        members = dict(self._value("members", relation, ()))
        return PublicationMember(members[publication]) if publication in members else None

    def schema_publications(self, oid: int) -> tuple[int, ...]:
        publications: tuple[int, ...] = self._value("schema", oid, ())
        return publications

    def relation(self, oid: int) -> RelationSchema:
        version, namespace, ancestors = self._value("relation", oid, (0, NAMESPACES[0], ()))
        return RelationSchema(
            oid, "s", f"v{version}", "r", "p", "d", (), (), 0, 0, bool(ancestors), ancestors, namespace
        )


def say(schema: RelationSchema, catalog: Any, refuses: bool) -> tuple[int, tuple[bytes, ...]]:
    """Say which publications, if they exist, publish the relation itself or an ancestor, and as what.

    The message ends with what the relation is; all before is what :func:`renewed` leaves as it is.

    Raises:
        PluginError: a publication is missing, and that is refused.
    """
    parts, wants = [], 0
    for name in GIVEN:
        row = catalog.publication(name)
        if row is None and refuses:
            raise PluginError(f"{name} is missing")
        if row is None:
            continue
        for oid in (schema.oid, *schema.ancestors):
            relation = schema if oid == schema.oid else catalog.relation(oid)
            is_member = row.oid in catalog.relation_publications(oid)
            if is_member or row.oid in catalog.schema_publications(relation.namespace_oid):
                member = catalog.publication_member(oid, row.oid)
                parts.append(
                    f"{name} {row.oid} {oid} {relation.name} {relation.namespace_oid} {member and member.columns}"
                )
                wants |= row.insert | row.update << 1 | row.truncate << 4
    return wants, (f"{' '.join(parts)}|{schema.name}".encode(),) if wants else ()


def renewed(schema: RelationSchema, messages: Sequence[bytes]) -> tuple[bytes, ...]:
    """Make what announces a relation now that is published as it was."""
    return tuple(message.partition(b"|")[0] + f"|{schema.name}".encode() for message in messages)


@dataclass
class _Txn:
    base: int = 1 << 62
    steps: list[Event] = field(default_factory=list)
    received: list[tuple[int, tuple[Subject, ...]]] = field(default_factory=list)


@dataclass
class Said:
    """The output of a touch: LSN, relation, wants, messages, whether they are sent first."""

    lsn: int
    relation: int
    wants: int
    messages: tuple[bytes, ...]
    is_announced: bool


class PlainSync:
    """A plugin that reads a log record by record, and replays transactions when they commit.

    Args:
        catalog: of the log; refuses: a missing publication is an error; passed_over: xids that are not decoded.
        max_messages: with so many handed on to it, a transaction forgets everything.
        is_apart: that a relation was announced is forgotten by itself.
    """

    def __init__(
        self,
        catalog: PlainCatalog,
        refuses: bool,
        passed_over: frozenset[int],
        max_messages: int,
        is_apart: bool = False,
    ) -> None:
        self.catalog, self.refuses, self.passed_over = catalog, refuses, passed_over
        self.max_messages, self.is_apart = max_messages, is_apart
        self.said: list[Said] = []
        self.refused: tuple[int, str] | None = None
        self.txns: dict[int, _Txn] = {}
        self.entries: dict[int, tuple[int, tuple[bytes, ...]]] = {}
        self.announced: dict[int, int] = {}
        self.loaded: tuple[tuple[int, Publication | None], ...] | None = None
        self.caches: dict[int, dict[Any, Any]] = {NAMES: {}, ROWS: {}, RELATIONS: {}, MEMBERS: {}, SCHEMAS: {}}
        self.given: list[tuple[int, int, int]] = []
        self.counts: list[tuple[int, int]] = []
        self.warned: list[str] = []
        self.latest = 0

    def read(self, log: list[Event]) -> None:
        """Read all of a log, up to where the plugin refuses."""
        for event in log:
            self._read(event)
            if self.refused is not None:
                return

    def _read(self, event: Event) -> None:
        if event.kind == TELL and not event.xid:
            self._forget(event.subjects)
            return
        txn = self.txns.setdefault(event.xid, _Txn())
        if event.kind == ABORT:
            del self.txns[event.xid]
        elif event.kind == COMMIT:
            self._commit(event, self.txns.pop(event.xid))
        else:
            txn.steps.append(event)
            if event.kind in (CHANGE, TRUNCATE):
                txn.base = min(txn.base, event.lsn)

    def _commit(self, event: Event, txn: _Txn) -> None:
        own = tuple(subject for step in txn.steps for subject in step.subjects)
        if event.xid not in self.passed_over:
            steps = [step for step in txn.steps if not step.is_rolled_back]
            steps += [Event(lsn, TELL, event.xid, subjects=subjects) for lsn, subjects in txn.received]
            for step in sorted(steps, key=lambda step: step.lsn):
                self._replay(event.xid, step)
            for _, subjects in txn.received:
                self._forget(subjects)
            if sum(len(subjects) for _, subjects in txn.received) >= self.max_messages:
                self._forget(tuple((memory, 0) for memory in MEMORIES))
        self._forget(own)
        self.given += [(event.lsn, *subject) for subject in own]
        self.counts += [(event.lsn, len(own))] if own else []
        for other in self.txns.values():
            if other.base < event.lsn and own:
                other.received.append((event.lsn, own))

    def _replay(self, xid: int, step: Event) -> None:
        for relation in step.relations:
            self._touch(xid, step, relation)
        self._forget(step.subjects)

    def _forget(self, subjects: tuple[Subject, ...]) -> None:
        for memory, subject in subjects:
            if memory == LOADED:
                self.loaded = None
                continue
            if memory == ENTRIES and not self.is_apart:
                self._forget(((ANNOUNCED, subject),))
            memories: dict[int, dict[Any, Any]] = {ENTRIES: self.entries, ANNOUNCED: self.announced, **self.caches}
            remembered = memories[memory]
            for known in list(remembered):
                if subject in (0, member_subject(hash_oids(*known)) if memory == MEMBERS else known):
                    del remembered[known]

    def _touch(self, xid: int, step: Event, oid: int) -> None:
        if self.refused is not None:
            return
        view = self.catalog.view(xid, step.lsn)
        if oid not in self.entries:
            self.latest = max(self.latest, step.lsn)
            try:
                self.entries[oid] = say(view.relation(oid), self._look_up(view, oid), self.refuses)
            except PluginError as error:
                self.refused = (step.lsn, error.message)
                return
        wants, messages = self.entries[oid]
        messages = renewed(view.relation(oid), messages) if self.is_apart else messages
        is_wanted = bool(wants & (16 if step.kind == TRUNCATE else 1))
        self.said.append(Said(step.lsn, oid, wants, messages, is_wanted and oid not in self.announced))
        if is_wanted:
            self.announced[oid] = oid

    def _look_up(self, view: PlainView, oid: int) -> _InMind:
        schema = view.relation(oid)
        relations, members, schemas = (self.caches[memory] for memory in (RELATIONS, MEMBERS, SCHEMAS))
        for relation in (oid, *schema.ancestors):
            if relation not in relations:
                relations[relation] = view.relation_publications(relation)
                members |= {
                    (relation, other): view.publication_member(relation, other) for other in relations[relation]
                }
            namespace = view.relation(relation).namespace_oid
            schemas.setdefault(namespace, view.schema_publications(namespace))
        if self.loaded is None:
            self.loaded = tuple(self._load(view, number) for number in range(1, len(GIVEN) + 1))
            missing = [name for name, (named, _) in zip(GIVEN, self.loaded, strict=True) if not named]
            self.warned += [name for name in dict.fromkeys(missing) if name not in self.warned]
        return _InMind(view, dict(zip(GIVEN, self.loaded, strict=True)), dict(relations), dict(members), dict(schemas))

    def _load(self, view: PlainView, number: int) -> tuple[int, Publication | None]:
        """Return which publication a name is, and its row."""
        names, rows = self.caches[NAMES], self.caches[ROWS]
        if number not in names:
            publication = view.publication(GIVEN[number - 1])
            names[number] = 0 if publication is None else publication.oid
        oid = names[number]
        return oid, rows.setdefault(oid, view.publication_by_oid(oid)) if oid else None


@dataclass(frozen=True)
class _InMind:
    view: PlainView
    loaded: dict[str, tuple[int, Publication | None]]
    relations: dict[int, Any]
    members: dict[tuple[int, int], PublicationMember]
    schemas: dict[int, Any]

    def relation(self, oid: int) -> RelationSchema:
        return self.view.relation(oid)

    def publication(self, name: str) -> Publication | None:
        oid, row = self.loaded[name]
        if oid and row is None:
            raise PluginError(f"cache lookup failed for publication {oid}")
        return row

    def relation_publications(self, oid: int) -> Any:
        return self.relations[oid]

    def publication_member(self, relation: int, publication: int) -> PublicationMember | None:
        return self.members.get((relation, publication))

    def schema_publications(self, oid: int) -> Any:
        return self.schemas[oid]


class RandomLog:
    """Sessions side by side that change tables, and the catalog, whose keys they lock until they end."""

    def __init__(self, rng: Random, sessions: int, is_apart: bool = False) -> None:
        self.rng, self.sessions, self.is_apart = rng, sessions, is_apart
        self.lsn, self.xid = 0, 700
        self.open: list[int] = []
        self.locks: dict[tuple[str, Any], int] = {}
        self.names, self.renamed = PUBLICATIONS, dict[int, dict[str, int]]()

    def events(self, count: int) -> Iterator[Event]:
        """Give so many events, and perhaps the ends of what is open then."""
        for key in [("publication", oid) for oid in PUBLICATIONS.values()] if self.rng.random() < 0.8 else []:
            yield self._event(DEFINE, 1, key=key, value=self._value(key))
        yield self._event(COMMIT, 1)
        for _ in range(count):
            if len(self.open) < self.sessions and self.rng.random() < 0.5:
                self.xid += 1
                self.open.append(self.xid)
            yield self._next()
        while self.open and self.rng.random() < 0.8:
            yield self._end(self.open[0])

    def _event(self, kind: int, xid: int, **more: Any) -> Event:
        self.lsn += 10
        return Event(self.lsn, kind, xid, **more)

    def _next(self) -> Event:
        rng = self.rng
        if not self.open or rng.random() < 0.05:
            return self._event(TELL, 0, subjects=self._noise())
        xid, rolled_back = rng.choice(self.open), rng.random() < 0.15
        dice = rng.random()
        if dice < 0.5:
            return self._event(CHANGE, xid, relations=(rng.choice(TABLES),), is_rolled_back=rolled_back)
        if dice < 0.55:
            some = tuple(rng.sample(TABLES, 2))
            return self._event(TRUNCATE, xid, relations=some, is_rolled_back=rolled_back)
        if dice < 0.62:
            return self._event(TELL, xid, subjects=self._noise(), is_rolled_back=rolled_back)
        if dice < 0.8:
            return self._define(xid, rolled_back)
        return self._end(xid)

    def _end(self, xid: int) -> Event:
        self.open.remove(xid)
        self.locks = {key: owner for key, owner in self.locks.items() if owner != xid}
        is_aborted, renamed = self.rng.random() < 0.15, self.renamed.pop(xid, self.names)
        self.names = self.names if is_aborted else renamed
        return self._event(ABORT if is_aborted else COMMIT, xid)

    def _noise(self) -> tuple[Subject, ...]:
        entries = [(ENTRIES, oid) for oid in (0, *TABLES, *TABLES, 999)]
        entries += [(ANNOUNCED, oid) for oid in (*TABLES, *TABLES, 999)] if self.is_apart else []
        others = [(LOADED, 0), (NAMES, 0), (NAMES, 2), (ROWS, 0), (ROWS, 2), (RELATIONS, 0), (SCHEMAS, 0)]
        noise = self.rng.sample(entries + others, self.rng.choice((0, 1, 1, 2)))
        if self.rng.random() < 0.1:
            # Whatever a message is about, it drops the lists of that cache.
            noise += [(RELATIONS, 0), self.rng.choice([(MEMBERS, 0), *_members(101)])]
        return tuple(dict.fromkeys(noise))

    def _define(self, xid: int, rolled_back: bool) -> Event:
        rng = self.rng
        keys = [("publication", oid) for oid in PUBLICATIONS.values()] + [("schema", oid) for oid in NAMESPACES]
        keys += [("names", 0)] * 4 + [(kind, oid) for kind in ("members", "relation") for oid in (*TABLES, *ROOTS)]
        key = rng.choice(keys)
        locks = [key] if key[0] != "names" else [key, *(("publication", oid) for oid in PUBLICATIONS.values())]
        if any(self.locks.get(lock, xid) != xid for lock in locks):
            return self._event(TELL, xid, subjects=self._noise(), is_rolled_back=rolled_back)
        self.locks |= dict.fromkeys(locks, xid)
        if key[0] in ("names", "publication"):
            return self._define_publication(xid, rolled_back, key)
        entries = (ENTRIES, rng.choice((0, 0, key[1]))) if key[0] in ("members", "relation") else (ENTRIES, 0)
        caches = {"members": [(RELATIONS, 0), *_members(key[1])], "schema": [(SCHEMAS, 0)], "relation": []}
        # A root's own entry is not that of its partitions, which depend on it.
        entries = (ENTRIES, 0) if key[1] in ROOTS else entries
        if self.is_apart and key[0] == "relation":
            entries = (ANNOUNCED, key[1])
        subjects = (entries, *caches[key[0]])
        return self._event(DEFINE, xid, key=key, value=self._value(key), subjects=subjects, is_rolled_back=rolled_back)

    def _define_publication(self, xid: int, rolled_back: bool, key: tuple[str, Any]) -> Event:
        """Define the row of one publication, or of two that swap names.

        Messages name each row, and each name that it had or has.
        """
        names = self.renamed.get(xid, self.names)
        if key[0] == "names":
            first, second = self.rng.sample(sorted(names), 2)
            value, touched = names | {first: names[second], second: names[first]}, {first, second}
            self.renamed |= {} if rolled_back else {xid: value}
        else:
            value, touched = self._value(key), {name for name, oid in names.items() if oid == key[1]}
        subjects = [(ENTRIES, 0), (LOADED, 0), *((ROWS, names[name]) for name in sorted(touched))]
        subjects += [(NAMES, number) for number, name in enumerate(GIVEN, 1) if name in touched]
        return self._event(DEFINE, xid, key=key, value=value, subjects=tuple(subjects), is_rolled_back=rolled_back)

    def _value(self, key: tuple[str, Any]) -> Any:
        rng = self.rng
        if key[0] == "publication":
            return rng.choice((None, *[(*(rng.random() < 0.7 for _ in range(4)), True)] * 4))
        if key[0] in ("members", "schema"):
            some = sorted(rng.sample((1, 2, 3), rng.choice((0, 1, 1, 2))))
            return (
                tuple((publication, rng.choice((None, (1,), (2, 1)))) for publication in some)
                if key[0] == "members"
                else tuple(some)
            )
        ancestors = tuple(rng.sample(ROOTS, rng.randrange(3))) if key[1] in PARTITIONS else ()
        return rng.randrange(100), rng.choice(NAMESPACES), ancestors


def _members(relation: int) -> list[Subject]:
    """List what is forgotten when any publication says something else of a relation."""
    return [(MEMBERS, member_subject(hash_oids(relation, publication))) for publication in PUBLICATIONS.values()]
