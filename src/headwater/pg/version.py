"""The versions of PostgreSQL that Headwater reads: how their files are recognized, and where they differ.

No other module compares a version with a number: what depends on it is a trait of :class:`Version`.

Facts from ``access/xlog_internal.h`` (XLOG_PAGE_MAGIC), ``catalog/pg_control.h`` (PG_CONTROL_VERSION) and
``catalog/catversion.h`` (CATALOG_VERSION_NO) of each major. None of the three ever changes in a minor release, so no
file tells the minor: a user, a server or an exported catalog does, or the newest one that is known is taken.

Known gap: no package is known of the minor releases of November 2026 of 14, 16 and 18.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Generic, TypeVar

from headwater.errors import SegmentError, UsageError

T = TypeVar("T")

_AUGUST_2026 = {14: 24, 15: 19, 16: 15, 17: 11, 18: 5}
_NOVEMBER_2026 = {15: 20, 17: 12}
"""The minor releases of a day, by major. Their news may be in the first release of a later major."""


@dataclass(frozen=True)
class Trait(Generic[T]):
    """A fact about versions that changed once: an attribute of :class:`Version`.

    Attributes:
        since: the first major that has the new fact in all its releases, None if no major has so far.
        before, after: the old and the new fact.
        minors: by major, the first minor release that has the new fact, of majors before `since`.
    """

    since: int | None
    before: T
    after: T
    minors: Mapping[int, int] | None = None

    def __get__(self, version: Version, _: type[Version]) -> T:
        """Return the fact that holds for a version."""
        if self.since is not None and version.major >= self.since:
            return self.after
        first = (self.minors or {}).get(version.major)
        return self.before if first is None or version.minor < first else self.after


def _since(major: int, minors: Mapping[int, int] | None = None) -> Trait[bool]:
    """Declare a fact that holds from a major on, and from some minors of the majors before it."""
    return Trait(major, before=False, after=True, minors=minors)


def _until(major: int, minors: Mapping[int, int] | None = None) -> Trait[bool]:
    """Declare a fact that no longer holds from a major on, and from some minors of the majors before it."""
    return Trait(major, before=True, after=False, minors=minors)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of PostgreSQL.

    Attributes:
        major: 14 to 19.
        page_magic: ``xlp_magic`` of every WAL page.
        control_version: ``pg_control_version`` of ``global/pg_control``.
        catalog_version: ``catalog_version_no`` of ``global/pg_control``.
        minor: the release, the newest that is known unless another one is named.
    """

    major: int
    page_magic: int
    control_version: int
    catalog_version: int
    minor: int

    def __str__(self) -> str:
        """Print the version such as ``15.20``."""
        return f"{self.major}.{self.minor}"

    @property
    def is_newer_than_known(self) -> bool:
        """Whether the release is newer than the known ones: it may differ where minor releases differ."""
        return self.minor > VERSIONS[self.major].minor

    # WAL: pages and records.
    overwritten_contrecord_flag = Trait(19, before=0x0008, after=0x0004)
    """``XLP_FIRST_IS_OVERWRITE_CONTRECORD`` of ``xlp_info``, the highest flag that there is."""
    names_image_compression = _since(15)
    """A page image says by which method it is compressed; before, only that it is, and by other bits."""
    logs_created_databases = _since(15)
    """CREATE DATABASE can write the new database's pages to the WAL; the info codes of DBASE differ before."""
    prefetches_in_recovery = _since(15)
    """Recovery looks ahead for the blocks that records name (``recovery_prefetch``)."""
    has_event_trigger_switch = _since(17)
    """Event triggers, of which login is one from then on, can be switched off (``event_triggers``)."""
    grants_parameters = _since(15)
    """Who may set a parameter can be granted (GRANT SET ON PARAMETER)."""
    names_unsupported_kinds = _since(15)
    """A relation of a kind that is not replicated into is refused with the kind's name, rather than as no table."""
    applies_as_table_owner = _since(16)
    """Changes of a subscription are applied as the tables' owners, unless ``run_as_owner`` says otherwise."""
    grants_set_role = _since(16)
    """Membership in a role may be without the right to SET ROLE to it."""
    names_generated_targets = _since(18)
    """Generated columns that are sent to are refused as such, rather than as missing."""
    has_custom_managers = _since(15)
    """Extensions can bring resource managers."""
    has_dropped_stats = _since(15)
    """The ends of transactions, and PREPARE, list dropped statistics."""
    dropped_stats_size = Trait(18, before=12, after=16)
    """Bytes of a dropped statistics entry: objects are wider from 18 on."""
    logs_catalog_flags = _since(16)
    """Records that conflict with snapshots hold whether they are about a catalog (``isCatalogRel``)."""
    has_unified_prune = _since(17)
    """HEAP2's PRUNE, VACUUM and FREEZE_PAGE are one format with three info codes."""
    logs_wal_level = _since(17)
    """Checkpoints and ends of recovery tell wal_level; CHECKPOINT_REDO exists."""
    has_wide_page_numbers = _since(17)
    """Pages of the SLRUs (CLOG, MultiXact, CommitTs) are numbered with 64 bits."""
    has_inplace_invalidations = _since(18)
    """INPLACE records carry invalidations; before, they mark their transaction as one that changes the catalog."""
    switches_decoding = _since(19)
    """Logical decoding can be on while wal_level is replica: it begins and ends with the slots that need it.

    Checkpoints and ``pg_control`` say whether it is on, and LOGICAL_DECODING_STATUS_CHANGE when that changes.
    """
    has_wide_members = _since(19)
    """Members of multixacts are counted with 64 bits, in records and in ``pg_multixact/offsets``."""
    logs_assigned_lsns = _since(19)
    """ASSIGN_LSN is a record of XLOG; before, of GIST."""
    sets_visibility_with_pruning = _since(19)
    """Bits of the visibility map are set by PRUNE_* and MULTI_INSERT, whose flags are wider; VISIBLE is gone."""
    checksums_by_default = _since(18)
    """Initdb turns data checksums on."""

    # Text of pg_waldump.
    lsn_digits = Trait(19, before=1, after=8)
    """The least number of digits of an LSN's lower half that are printed."""
    shows_range_of_statistics = _since(15)
    """Statistics of pg_waldump begin with the stretch of WAL that they are of."""
    describes_origins_of_all_ends = _since(15)
    """Descriptions of PREPARE and ABORT say their replication origin, and those of commits that feedback is wanted."""
    describes_with_colons = _since(16)
    """Descriptions of heap and btree records name each value (``off: 1``) and list offsets."""
    lists_running_subxacts = _since(16)
    """The description of RUNNING_XACTS lists subtransactions."""
    describes_catalog_flags = _since(17)
    """Descriptions of records that conflict with snapshots say whether they are about a catalog."""
    describes_more_of_indexes = _since(19)
    """Descriptions of GIN's and hash's records give numbers that they left out before."""

    # The reorder buffer: memory that is counted, transactions in progress, prepared ones.
    snapshot_size = Trait(18, before=120, after=104)
    """sizeof(SnapshotData), bytes."""
    change_size = Trait(None, before=80, after=88, minors=_NOVEMBER_2026)
    """sizeof(ReorderBufferChange), bytes.

    Since servers forget what a subtransaction did to catalogs when it is rolled back, each row's command ids come with
    its xid.
    """
    queues_bare_updates = _until(19)
    """Updates of catalogs, which are logged without a tuple, are queued by the reorder buffer."""
    has_debug_streaming = _since(16)
    """There is debug_logical_replication_streaming."""
    streams_what_is_sent = _since(16)
    """Only transactions with changes that are sent are streamed in progress (RBTXN_HAS_STREAMABLE_CHANGE)."""
    streams_by_minor = _until(19)
    """The output for transactions in progress depends on the minor release: where blocks end, what is announced.

    It is not known for majors whose release of November 2026 is not known.
    """
    counts_announcements_at_prepare = _since(19, _NOVEMBER_2026)
    """Announcements of a streamed transaction count for all when it is prepared; before, only if it commits so.

    Before, announcements that were prepared after they were streamed never count (seen with 15 to 18).
    """
    finishes_empty_prepared = _until(18, _AUGUST_2026)
    """COMMIT and ROLLBACK PREPARED are reported for transactions without changes, whose PREPARE was not reported.

    In 18 until August 2026, PREPARE is also reported, without a beginning: Headwater does not repeat that.
    """

    # Output plugins: options, and what is sent when.
    splits_at_vertical_tab = _since(16)
    """A vertical tab is white space (scanner_isspace)."""
    has_two_phase_option = _since(15)
    """Pgoutput knows the option ``two_phase``."""
    has_origin_option = _since(16)
    """Pgoutput knows the option ``origin``."""
    has_parallel_streaming = _since(16)
    """The option ``streaming`` of pgoutput is a mode, not a switch."""
    logs_conflicts = _since(18)
    """The apply worker logs rows that it does not find as conflicts; before, it passes over them without a word."""
    streams_by_default = _since(18)
    """A subscription has ``streaming = parallel`` unless it says otherwise."""
    requires_options = _since(17)
    """Pgoutput says which of its options is missing."""
    reads_numbers_as_unsigned = _since(15)
    """Pgoutput reads its number of a protocol version with strtoul; before, with scanint8."""
    calls_itself_server = _since(16)
    """Errors about protocol versions say "server", not "we"."""
    puts_off_begin = _since(15)
    """Pgoutput sends BEGIN with the first message, and nothing of a transaction that has none."""
    messages_begin_transactions = _since(17)
    """A logical message makes test_decoding send a BEGIN that it has put off."""
    announces_bare_deletes = _until(15)
    """Pgoutput announces a relation before a DELETE that it then leaves out, as it has no old tuple."""
    announces_anew_with_publications = _since(15)
    """An event that makes pgoutput look up how a relation is published also makes it send the schema, and vice versa.

    Before, pgoutput looks up the publication only after a change of any publication, and sends the schema only after a
    message about just that relation.
    """
    has_relsync_invalidations = _since(18)
    """Changes of publications invalidate pgoutput's entries by messages of their own."""

    # Publications, and the rows that they publish.
    counts_live_columns = _since(16)
    """A column list of all columns but dropped and generated ones is as good as none; before, one of all columns."""
    publishes_generated_columns = _since(18)
    """Publications decide about generated columns; all that is published is compared as column lists."""
    warns_of_missing_publications = _since(18)
    """A publication that does not exist is passed over with a warning; before, it is an error."""
    keeps_deferred_primary_keys = _since(18)
    """Indexes that are invalid or deferrable count when the primary key is looked for (RelationGetIndexList)."""
    reads_missing_of_partitions_as_null = _until(15)
    """Pgoutput reads rows of a partition that is published as an ancestor without the values of added columns.

    Rows from before a column was added do not hold it, and neither the copy of the partition's descriptor nor that of
    the partitioned table has what the partition's own one has for them (CreateTupleDescCopy).
    """

    # Text of values.
    has_mule_internal = _until(19)
    """There is the encoding MULE_INTERNAL."""
    escapes_chars = _since(15)
    r"""A "char" beyond ASCII is printed as ``\ooo``; before, as the byte it is, which may be no valid text."""
    has_wide_intervals = _since(15)
    """An interval can have more hours than an int holds; before, the server cannot print one that has."""
    has_infinite_intervals = _since(17)
    """An interval can be infinite."""
    encloses_jsonpath_numbers = _since(15)
    """A number in a jsonpath that a step follows is printed in parentheses."""
    signs_upper_seg_bounds = _since(19, _AUGUST_2026)
    """The sign ``~`` of a seg's upper bound is printed; before, the sign of its lower bound decided about it."""
    prints_statistics_as_json = _since(19)
    """pg_ndistinct and pg_dependencies are arrays of JSON."""

    # Row filters.
    checks_timestamp_differences = _since(16)
    """A difference of timestamps that is too large is an error; before, it wraps around."""
    simplifies_elements_of_ranges = _since(17)
    """The planner makes comparisons of ``range @> value``, and a constant where the range is empty, or endless."""
    casts_jsonb_null = _since(18)
    """A null inside a jsonb becomes NULL by a cast; before, it cannot be cast."""
    cuts_by_least_integer = _since(19, _NOVEMBER_2026)
    """``right`` with the least integer cuts all off, as with any that is far below zero; before, nothing."""

    # What a walsender understands, and says.
    protocol_minor = Trait(18, before=0, after=2)
    """The newest minor version of the frontend/backend protocol 3 (PG_PROTOCOL_LATEST)."""
    escapes_application_name = _since(16)
    """Bytes of an application_name that are no printable ASCII are escaped; before, they become question marks."""
    has_transaction_timeout = _since(17)
    """There is a setting transaction_timeout."""
    quotes_setting_names = _since(17)
    """Messages have names of settings in quotes, and units behind the limits of their ranges."""
    accepts_direct_tls = _since(17)
    """A connection may begin with TLS at once, without an SSLRequest."""
    negotiates_down = _since(18)
    """NegotiateProtocolVersion names the version that is gone on with; before, the newest that the server knows."""
    wide_timelines = _since(16)
    """IDENTIFY_SYSTEM's timeline is an int8; before, an int4."""
    reports_search_path = _since(18)
    """The client is told of search_path."""
    reports_scram_iterations = _since(16)
    """The client is told of scram_iterations."""

    explains_missing_replication = _since(16)
    """A role without REPLICATION is refused with a detail that says so; before, the message does (InitPostgres)."""
    reads_replication_slots = _since(15)
    """READ_REPLICATION_SLOT tells where a physical slot stands (repl_gram.y)."""
    options_in_parentheses = _since(15)
    """CREATE_REPLICATION_SLOT and BASE_BACKUP take a list of options, not words (repl_gram.y)."""
    alters_replication_slots = _since(17)
    """ALTER_REPLICATION_SLOT, and UPLOAD_MANIFEST, are commands (repl_gram.y)."""
    names_role_attributes = _since(16)
    """What a role must be is told in a DETAIL, by the name of its attribute (slot.c, CheckSlotPermissions)."""
    casts_boolean_constants = _until(15)
    """The grammar makes casts of the constants true and false (gram.y, makeBoolAConst)."""
    refuses_target_lsns = _since(18)
    """pg_replication_slot_advance to 0/0 has an SQLSTATE of its own (slotfuncs.c)."""
    sends_history_as_text = _since(16)
    """TIMELINE_HISTORY's columns are described as any text; before, with a type modifier of 0."""
    wants_read_only_snapshots = _since(16)
    """Only a transaction that is read-only can use the snapshot of a slot that is made in it."""
    restricts_output_plugins = _since(19, _AUGUST_2026)
    """A library that is no output plugin is refused by name, whether it exists or not."""
    alters_two_phase = _since(18)
    """ALTER_REPLICATION_SLOT knows TWO_PHASE."""
    uses_invalidated_slots = _until(18)
    """A slot that was invalidated can be taken for what needs no WAL; from 18 on it can only be dropped (slot.c)."""
    names_invalidated_streams = _until(16)
    """START_REPLICATION has words of its own for a slot that was invalidated (walsender.c)."""
    names_invalidation_reasons = _since(17)
    """Views name the reason why a slot was invalidated; before, 16 tells all such slots as conflicting."""
    has_idle_slot_timeout = _since(18)
    """There is a setting idle_replication_slot_timeout."""
    names_system_in_manifest = _since(17)
    """A backup's manifest is of version 2, which has the system identifier (backup_manifest.c)."""
    copies_archives_in_one = _since(15)
    """BASE_BACKUP sends all archives in one stream, each whole; before, a stream an archive, without its end."""

    # What a publisher is asked by SQL.
    publishes_columns = _since(15)
    """Publications have column lists, row filters and schemas, which pg_get_publication_tables tells."""
    gathers_publications = _since(16)
    """The function pg_get_publication_tables takes several publications, and always tells the columns."""
    copies_binary_rows = _since(16)
    """Subscribers that ask for values in binary form copy rows so, too."""
    copies_materialized_views = _since(18)
    """COPY TO takes the name of a materialized view."""
    copies_partitioned_tables = _since(19)
    """COPY TO takes the name of a partitioned table."""
    answers_primary_status = _since(19)
    """A walsender is asked for the primary's status (walsender.c: ProcessStandbyPSRequestMessage)."""
    encodes_in_more_forms = _since(19)
    """encode() knows base32hex and base64url, and its error names all forms."""
    publishes_sequences = _since(19)
    """Publications can have all sequences; pg_get_publication_tables can be asked about one table."""

    @property
    def reads_no_digits_as_zero(self) -> bool:
        """Whether an empty number of a protocol version is 0; else it is no number."""
        return self.reads_numbers_as_unsigned and self.minor < _NOVEMBER_2026.get(self.major, self.minor + 1)


VERSIONS = {
    14: Version(14, 0xD10D, 1300, 202107181, minor=24),
    15: Version(15, 0xD110, 1300, 202209061, minor=20),
    16: Version(16, 0xD113, 1300, 202307071, minor=15),
    17: Version(17, 0xD116, 1700, 202406281, minor=12),
    18: Version(18, 0xD118, 1800, 202506291, minor=6),
    19: Version(19, 0xD122, 1905, 202610061, minor=0),
}
"""The supported majors, each in the newest minor release that is known."""

_NAMED = re.compile(r"\s*([1-9]\d{0,3})(?:\.(\d{1,4})|(?:devel|beta\d+|rc\d+))(?:\s.*)?", re.ASCII | re.DOTALL)
"""A version as servers call themselves (``server_version``), with what a distribution adds."""


@lru_cache
def version_named(text: str, major: int) -> Version:
    """Return the version of a name such as ``15.20``, or as ``SHOW server_version`` prints it.

    Args:
        text: the name.
        major: the major version of the WAL or the catalog.

    Raises:
        UsageError: the text is no version, or one of another major.
    """
    match = _NAMED.fullmatch(text)
    if match is None:
        raise UsageError(f'invalid server version "{text}", expected one such as {VERSIONS[major]}')
    if int(match[1]) != major:
        raise UsageError(
            f'the server version is "{text}", expected one of PostgreSQL {major}, whose catalog is read',
            hint="give the version of the server that wrote the WAL",
        )
    return replace(VERSIONS[major], minor=int(match[2] or 0))


UNSUPPORTED_MAGICS = {0xD098: 10, 0xD099: 11, 0xD101: 12, 0xD106: 13}
"""Page magics of majors that are known and not supported."""

_BY_MAGIC = {version.page_magic: version.major for version in VERSIONS.values()}


def major_of_magic(magic: int, file: str) -> int | None:
    """Find the major version whose WAL pages begin with this magic number, None if there is none.

    Args:
        magic: ``xlp_magic``.
        file: the segment, for the error.

    Raises:
        SegmentError: the magic is of a major that is not supported.
    """
    old = UNSUPPORTED_MAGICS.get(magic)
    if old is not None:
        raise SegmentError(
            f"WAL of PostgreSQL {old} is unsupported, expected one of {', '.join(map(str, VERSIONS))}", file=file
        )
    return _BY_MAGIC.get(magic)
