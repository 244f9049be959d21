"""The versions of PostgreSQL that Headwater reads: how their files are told apart, and where they differ.

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

from headwater.errors import SegmentError, UsageError

_AUGUST_2026 = {14: 24, 15: 19, 16: 15, 17: 11, 18: 5}
_NOVEMBER_2026 = {15: 20, 17: 12}
"""By major, the minor release of a day. What it brought may be in the first release of a later major."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version.

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
        """Such as ``15.20``."""
        return f"{self.major}.{self.minor}"

    @property
    def is_newer_than_known(self) -> bool:
        """It may differ from what is known here, in what minor releases differ in."""
        return self.minor > VERSIONS[self.major].minor

    def _has(self, firsts: Mapping[int, int], since: int | None = None) -> bool:
        """Whether a change is in it that came with minor releases, by major, and is in all from a major on, if any."""
        if since is not None and self.major >= since:
            return True
        return self.minor >= firsts.get(self.major, self.minor + 1)

    @property
    def names_image_compression(self) -> bool:
        """A page image says by which method it is compressed; before, only that it is, and by other bits."""
        return self.major >= 15

    @property
    def describes_origins_of_all_ends(self) -> bool:
        """Descriptions of PREPARE and ABORT say where they came from, and those of commits that feedback is wanted."""
        return self.major >= 15

    @property
    def shows_range_of_statistics(self) -> bool:
        """Statistics of pg_waldump begin with the stretch of WAL that they are of."""
        return self.major >= 15

    @property
    def logs_created_databases(self) -> bool:
        """CREATE DATABASE can write the new database's pages to the WAL; the info codes of DBASE differ before."""
        return self.major >= 15

    @property
    def has_custom_managers(self) -> bool:
        """Extensions can bring resource managers."""
        return self.major >= 15

    @property
    def has_dropped_stats(self) -> bool:
        """The ends of transactions, and PREPARE, list dropped statistics."""
        return self.major >= 15

    @property
    def puts_off_begin(self) -> bool:
        """Pgoutput sends BEGIN with the first message, and nothing of a transaction that has none."""
        return self.major >= 15

    @property
    def snapshot_size(self) -> int:
        """sizeof(SnapshotData), bytes, as the memory that decoding uses is counted."""
        return 120 if self.major < 18 else 104

    @property
    def change_size(self) -> int:
        """sizeof(ReorderBufferChange), bytes, as the memory that decoding uses is counted.

        Since servers forget what a subtransaction did to catalogs when it is rolled back, each row's command ids come
        with its xid.
        """
        return 88 if self._has(_NOVEMBER_2026) else 80

    @property
    def streams_by_minor(self) -> bool:
        """What is told of transactions in progress depends on the minor release: where blocks end, what is announced.

        Of majors whose release of November 2026 is not known, it is not known either.
        """
        return self.major < 19

    @property
    def streams_what_is_sent(self) -> bool:
        """Only transactions with changes that are sent are streamed in progress (RBTXN_HAS_STREAMABLE_CHANGE)."""
        return self.major >= 16

    @property
    def has_debug_streaming(self) -> bool:
        """There is debug_logical_replication_streaming."""
        return self.major >= 16

    @property
    def has_two_phase_option(self) -> bool:
        """Pgoutput knows the option ``two_phase``."""
        return self.major >= 15

    @property
    def reads_numbers_as_unsigned(self) -> bool:
        """Pgoutput reads its number of a protocol version with strtoul; before, with scanint8."""
        return self.major >= 15

    @property
    def reads_no_digits_as_zero(self) -> bool:
        """An empty number of a protocol version is 0; else it is none."""
        return self.reads_numbers_as_unsigned and not self._has(_NOVEMBER_2026)

    @property
    def announces_anew_with_publications(self) -> bool:
        """What makes pgoutput look up how a relation is published makes it send the schema again, and the other way.

        Before, it looks up the one after a change of any publication only, and sends the other after a message about
        just that relation only.
        """
        return self.major >= 15

    @property
    def announces_bare_deletes(self) -> bool:
        """Pgoutput announces a relation before a DELETE that it then leaves out, as it has no old tuple."""
        return self.major < 15

    @property
    def reads_missing_of_partitions_as_null(self) -> bool:
        """Pgoutput reads rows of a partition that is published as an ancestor without the values of added columns.

        Rows from before a column was added do not hold it, and neither the copy of the partition's descriptor nor that
        of the partitioned table has what the partition's own one has for them (CreateTupleDescCopy).
        """
        return self.major < 15

    @property
    def has_origin_option(self) -> bool:
        """Pgoutput knows the option ``origin``."""
        return self.major >= 16

    @property
    def has_parallel_streaming(self) -> bool:
        """The option ``streaming`` of pgoutput is a mode, not a switch."""
        return self.major >= 16

    @property
    def calls_itself_server(self) -> bool:
        """Errors about protocol versions say "server", not "we"."""
        return self.major >= 16

    @property
    def splits_at_vertical_tab(self) -> bool:
        """A vertical tab is white space (scanner_isspace)."""
        return self.major >= 16

    @property
    def counts_live_columns(self) -> bool:
        """A column list is as good as none with all columns but dropped and generated ones; before, with all."""
        return self.major >= 16

    @property
    def describes_with_colons(self) -> bool:
        """Descriptions of heap and btree records name each value (``off: 1``) and list offsets."""
        return self.major >= 16

    @property
    def logs_catalog_flags(self) -> bool:
        """Records that conflict with snapshots hold whether they are about a catalog (``isCatalogRel``)."""
        return self.major >= 16

    @property
    def describes_catalog_flags(self) -> bool:
        """Descriptions of such records say so."""
        return self.major >= 17

    @property
    def lists_running_subxacts(self) -> bool:
        """The description of RUNNING_XACTS lists subtransactions."""
        return self.major >= 16

    @property
    def has_unified_prune(self) -> bool:
        """HEAP2's PRUNE, VACUUM and FREEZE_PAGE are one format with three info codes."""
        return self.major >= 17

    @property
    def logs_wal_level(self) -> bool:
        """Checkpoints and ends of recovery tell wal_level; CHECKPOINT_REDO exists."""
        return self.major >= 17

    @property
    def has_wide_page_numbers(self) -> bool:
        """Pages of the SLRUs (CLOG, MultiXact, CommitTs) are numbered with 64 bits."""
        return self.major >= 17

    @property
    def has_wide_intervals(self) -> bool:
        """An interval can have more hours than an int holds; before, the server cannot print one that has."""
        return self.major >= 15

    @property
    def escapes_chars(self) -> bool:
        r"""A "char" beyond ASCII is printed as ``\ooo``; before, as the byte it is, which may be no valid text."""
        return self.major >= 15

    @property
    def encloses_jsonpath_numbers(self) -> bool:
        """A number in a jsonpath that a step follows is printed in parentheses."""
        return self.major >= 15

    @property
    def signs_upper_seg_bounds(self) -> bool:
        """The sign ``~`` of a seg's upper bound is printed; before, that of its lower one decided about it."""
        return self._has(_AUGUST_2026, since=19)

    @property
    def has_mule_internal(self) -> bool:
        """There is the encoding MULE_INTERNAL."""
        return self.major < 19

    @property
    def casts_jsonb_null(self) -> bool:
        """A null inside a jsonb becomes NULL by a cast; before, it cannot be cast."""
        return self.major >= 18

    @property
    def checks_timestamp_differences(self) -> bool:
        """A difference of timestamps that is too large is an error; before, it wraps around."""
        return self.major >= 16

    @property
    def simplifies_elements_of_ranges(self) -> bool:
        """The planner makes comparisons of ``range @> value``, and a constant where the range is empty, or endless."""
        return self.major >= 17

    @property
    def cuts_by_least_integer(self) -> bool:
        """``right`` with the least integer cuts all off, as with any that is far below zero; before, nothing."""
        return self._has(_NOVEMBER_2026, since=19)

    @property
    def has_infinite_intervals(self) -> bool:
        """An interval can be infinite."""
        return self.major >= 17

    @property
    def requires_options(self) -> bool:
        """Pgoutput says which of its options is missing."""
        return self.major >= 17

    @property
    def messages_begin_transactions(self) -> bool:
        """A logical message makes test_decoding send a BEGIN that it has put off."""
        return self.major >= 17

    @property
    def has_relsync_invalidations(self) -> bool:
        """Changes of publications invalidate pgoutput's entries by messages of their own."""
        return self.major >= 18

    @property
    def has_inplace_invalidations(self) -> bool:
        """INPLACE records carry invalidations; before, they mark their transaction as one that changes the catalog."""
        return self.major >= 18

    @property
    def queues_bare_updates(self) -> bool:
        """Updates of catalogs, which are logged without a tuple, are queued by the reorder buffer."""
        return self.major < 19

    @property
    def finishes_empty_prepared(self) -> bool:
        """COMMIT and ROLLBACK PREPARED are told of transactions without changes, of whose PREPARE nothing was said.

        In 18 until August 2026, PREPARE too, without a beginning: that is not repeated.
        """
        return self.major < 18 and not self._has(_AUGUST_2026, since=18)

    @property
    def counts_announcements_at_prepare(self) -> bool:
        """What a streamed transaction has announced counts for all when it is prepared; before, only if it commits so.

        Before, what was prepared after it was streamed never counts (seen with 15 to 18).
        """
        return self._has(_NOVEMBER_2026, since=19)

    @property
    def dropped_stats_size(self) -> int:
        """Bytes of a dropped statistics entry in commit, abort and PREPARE records: objects are wider from 18 on."""
        return 16 if self.major >= 18 else 12

    @property
    def warns_of_missing_publications(self) -> bool:
        """A publication that does not exist is passed over with a warning; before, it is an error."""
        return self.major >= 18

    @property
    def publishes_generated_columns(self) -> bool:
        """Publications decide about generated columns; all that is published is compared as column lists."""
        return self.major >= 18

    @property
    def checksums_by_default(self) -> bool:
        """Initdb turns data checksums on."""
        return self.major >= 18

    @property
    def keeps_deferred_primary_keys(self) -> bool:
        """Indexes that are invalid or deferrable count when the primary key is looked for (RelationGetIndexList)."""
        return self.major >= 18

    @property
    def switches_decoding(self) -> bool:
        """Logical decoding can be on while wal_level is replica: it begins and ends with the slots that need it.

        Checkpoints and ``pg_control`` say whether it is on, and LOGICAL_DECODING_STATUS_CHANGE when that changes.
        """
        return self.major >= 19

    @property
    def has_wide_members(self) -> bool:
        """Members of multixacts are counted with 64 bits, in records and in ``pg_multixact/offsets``."""
        return self.major >= 19

    @property
    def logs_assigned_lsns(self) -> bool:
        """ASSIGN_LSN is a record of XLOG; before, of GIST."""
        return self.major >= 19

    @property
    def sets_visibility_with_pruning(self) -> bool:
        """Bits of the visibility map are set by PRUNE_* and MULTI_INSERT, whose flags are wider; VISIBLE is gone."""
        return self.major >= 19

    @property
    def overwritten_contrecord_flag(self) -> int:
        """``XLP_FIRST_IS_OVERWRITE_CONTRECORD`` of ``xlp_info``, the highest flag that there is."""
        return 0x0004 if self.major >= 19 else 0x0008

    @property
    def describes_more_of_indexes(self) -> bool:
        """Descriptions of GIN's and hash's records tell numbers that they left out before."""
        return self.major >= 19

    @property
    def lsn_digits(self) -> int:
        """How many digits of an LSN's lower half are printed at least."""
        return 8 if self.major >= 19 else 1

    @property
    def prints_statistics_as_json(self) -> bool:
        """pg_ndistinct and pg_dependencies are arrays of JSON."""
        return self.major >= 19


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
"""As servers call themselves (``server_version``), with what a distribution adds."""


@lru_cache
def version_named(text: str, major: int) -> Version:
    """The version of a name such as ``15.20``, or as ``SHOW server_version`` prints it.

    Args:
        text: it.
        major: what the WAL or the catalog is of.

    Raises:
        UsageError: it is none, or of another major.
    """
    found = _NAMED.fullmatch(text)
    if found is None:
        raise UsageError(f'invalid server version "{text}", expected one such as {VERSIONS[major]}')
    if int(found[1]) != major:
        raise UsageError(
            f'the server version is "{text}", expected one of PostgreSQL {major}, whose catalog is read',
            hint="give the version of the server that wrote the WAL",
        )
    return replace(VERSIONS[major], minor=int(found[2] or 0))


UNSUPPORTED_MAGICS = {0xD098: 10, 0xD099: 11, 0xD101: 12, 0xD106: 13}
"""Page magics of majors that are known and not supported."""

_BY_MAGIC = {version.page_magic: version.major for version in VERSIONS.values()}


def major_of_magic(magic: int, file: str) -> int | None:
    """The major version whose WAL pages begin with this magic number, None if it is nobody's.

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
