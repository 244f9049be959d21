"""PostgreSQL's own tests of logical decoding, case by case, and what covers each here.

Their text is theirs; what they do to a server is said in a few words, and done again by scenarios of this project in
words of its own. A case is covered by scenarios (on every major, compared byte for byte) or by other tests of this
project; else there is a reason why not. Files are those of PostgreSQL 18: ``contrib/test_decoding`` and the two folders
``src/test/subscription`` and ``src/test/recovery``, of the latter only what decodes.
"""

from __future__ import annotations

from dataclasses import dataclass

SQL = "contrib/test_decoding/sql"
SPECS = "contrib/test_decoding/specs"
SUBSCRIPTION = "src/test/subscription/t"
RECOVERY = "src/test/recovery/t"


@dataclass(frozen=True)
class Case:
    """A thing that a test does.

    Attributes:
        what: in a few words.
        scenarios: names of those that do it.
        tests: files of this project that cover it otherwise.
        reason: why nothing does, or what of it nothing does.
    """

    what: str
    scenarios: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    reason: str = ""


def _by(what: str, scenarios: str, reason: str = "") -> Case:
    return Case(what, tuple(scenarios.split()), (), reason)


def _in(what: str, *tests: str, reason: str = "") -> Case:
    return Case(what, (), tests, reason)


def _not(what: str, reason: str) -> Case:
    return Case(what, reason=reason)


STREAMING = "in blocks by a walsender, too, while the script runs, with a limit of 64kB"
TWO_PHASE = "at PREPARE, and at COMMIT PREPARED where that is asked for"
SUBSCRIBER = "about the subscriber; what the publisher decodes are plain rows"
NO_APPLY = "about applying changes, see [the subscriber's side](#the-subscribers-side)"
STATISTICS = "about statistics that the server keeps of its slots"

CASES: dict[str, tuple[Case, ...]] = {
    f"{SQL}/binary.sql": (_in("force-binary with functions that give text or bytes", "tests/plugins"),),
    f"{SQL}/ddl.sql": (
        _in("names, options and slots that are refused", "tests/plugins", "tests/slots"),
        _by("columns added, dropped, renamed and retyped between rows", "columns_come_and_go type_changes"),
        _by("columns added inside a transaction with rows", "definitions_and_rows_in_one_transaction"),
        _by("upserts and MERGE", "upserts_and_merges_over_a_range on_conflict merge"),
        _by("a table renamed and given a key by a rewrite", "renamed_and_given_a_key_by_a_rewrite"),
        _by("changes spooled to disk, with messages", "large_transaction_with_definitions_and_a_message"),
        _by("a table made, filled and dropped in one", "large_transaction_with_definitions_and_a_message"),
        _by("savepoints released in each other", "savepoints_released_in_each_other savepoints"),
        _by("ninety savepoints deep", "savepoints_ninety_deep"),
        _by("a type changed in a savepoint rolled back", "column_retyped_in_a_savepoint_that_is_rolled_back"),
        _by("tables treated as catalogs", "user_catalog_table user_catalog_table_altered"),
        _by("updates and deletes with and without a key", "rows_without_a_key replica_identity_kinds"),
        _by("the identity's index dropped", "identity_index_dropped_beside_a_key identity_index_goes_away"),
        _by("long values", "long_values_in_every_way toast_unchanged"),
    ),
    f"{SQL}/decoding_in_xact.sql": (
        _not("a slot made inside a transaction that has an xid", "about what the server's functions refuse"),
        _by("taking changes inside a transaction that has written", "taken_while_transactions_are_open"),
        _by("TRUNCATE and then a row in one transaction", "taken_while_transactions_are_open truncate"),
        _by(
            "a table made in the transaction, streamed at once",
            "taken_while_transactions_are_open streamed_definitions",
        ),
    ),
    f"{SQL}/decoding_into_rel.sql": (
        _not("results of the functions put into tables", "about the server's functions as part of a query"),
    ),
    f"{SQL}/messages.sql": (
        _by("transactional and other messages, rolled back or not", "messages"),
        _by("the variant that flushes", "messages_flushed_at_once"),
        _by("messages in another database", "another_database"),
    ),
    f"{SQL}/permissions.sql": (_not("who may make and use slots", "about the server's roles"),),
    f"{SQL}/prepared.sql": (
        _by("prepared, committed and rolled back, with definitions", "two_phase prepared_while_others_define"),
    ),
    f"{SQL}/replorigin.sql": (
        _not("who may use the functions of origins; reserved names", "about the server's functions"),
        _by("changes with an origin, left out and not", "origins origins_of_every_end"),
        _by("no position at commit, rollback and of prepared ones", "origins_of_every_end"),
        _by("pgoutput's option origin", "origins origins_of_every_end"),
    ),
    f"{SQL}/rewrite.sql": (
        _by("catalogs rewritten between definitions", "catalogs_rewritten_again_and_again rewritten_catalogs"),
        _by("catalogs with long values rewritten", "catalogs_rewritten_again_and_again long_catalog_values"),
    ),
    f"{SQL}/slot.sql": (_in("slots made, copied, advanced and dropped", "tests/slots"),),
    f"{SQL}/spill.sql": (
        _by("every mix of large and small subtransactions", "large_subtransactions_of_all_sizes"),
        _by("the same, spilled by the server", "spilled_by_a_small_work_mem"),
    ),
    f"{SQL}/stats.sql": (_not("counters of spilled and streamed transactions", STATISTICS),),
    f"{SQL}/stream.sql": (
        _by(
            "large transactions, messages and long values rolled back",
            "streamed_messages_and_long_values streamed_rows_rolled_back_to_a_savepoint copy_of_short_and_long_values",
            STREAMING,
        ),
    ),
    f"{SQL}/time.sql": (_by("the time of commits", "commit_order"),),
    f"{SQL}/toast.sql": (
        _by("long values stored, upserted, updated or left alone", "long_values_in_every_way toast_unchanged"),
        _by("long keys", "long_values_in_every_way toasted_key"),
        _by("COPY with long values here and there", "copy_of_short_and_long_values copy_with_long_values"),
        _by("a long key and whole old rows", "long_values_in_every_way toast_with_full_identity"),
        _by("long values in a large transaction", "long_values_in_every_way large_transactions_side_by_side"),
        _by("a rewrite amid long values", "long_values_and_a_rewrite_in_one_transaction"),
    ),
    f"{SQL}/truncate.sql": (_by("one table, several, with options", "truncate several_tables_truncated"),),
    f"{SQL}/twophase.sql": (
        _by("prepared with definitions", "two_phase prepared_while_others_define", TWO_PHASE),
        _by("prepared behind CLUSTER, with savepoints", "prepared_with_rewrites_and_savepoints", TWO_PHASE),
        _by("nothing but a lock prepared", "prepared_without_changes", TWO_PHASE),
    ),
    f"{SQL}/twophase_stream.sql": (_by("large prepared transactions", "streamed_prepared", STREAMING),),
    f"{SQL}/xact.sql": (_by("row locks before the first subtransaction", "row_locks_before_rows"),),
    f"{SPECS}/catalog_change_snapshot.spec": (
        _by("TRUNCATE before the restart", "truncated_in_a_subtransaction_before_the_restart"),
        _by("two such that end at different times", "two_truncates_that_end_at_different_times"),
        _by("a catalog table's row behind it", "row_of_a_catalog_table_behind_the_restart"),
        _by("TRUNCATE behind it, in a subtransaction", "truncated_in_a_subtransaction_behind_the_restart"),
        _by("partitions made before and behind it", "partitions_made_before_and_behind_the_restart"),
    ),
    f"{SPECS}/concurrent_ddl_dml.spec": (
        _by(
            "definitions between the rows of another's transaction, in 26 orders",
            "types_changed_before_the_first_row_of_a_table types_changed_of_a_table_that_is_in_use "
            "columns_added_before_the_first_row_of_a_table columns_dropped_of_a_table_that_is_in_use "
            "column_types_changed_of_a_table_that_is_in_use",
        ),
    ),
    f"{SPECS}/concurrent_stream.spec": (
        _by("definitions beside a large transaction", "streamed_beside_definitions_of_another", STREAMING),
    ),
    f"{SPECS}/delayed_startup.spec": (
        _by("a serializable transaction runs", "slot_made_beside_a_serializable_transaction"),
    ),
    f"{SPECS}/invalidation_distribution.spec": (
        _by("a table published between rows of running transactions", "published_between_rows_of_two_transactions"),
    ),
    f"{SPECS}/mxact.spec": (_by("rows of catalogs locked by several", "catalog_rows_locked_by_several"),),
    f"{SPECS}/oldest_xmin.spec": (
        _by(
            "a catalog's row vacuumed that an open transaction saw",
            "composite_attribute_vacuumed_beside_an_open_transaction composite_attribute_dropped_and_vacuumed",
        ),
    ),
    f"{SPECS}/ondisk_startup.spec": (_by("a slot begins from a snapshot on disk", "slot_made_beside_definitions"),),
    f"{SPECS}/skip_snapshot_restore.spec": (
        _by("checkpoints while a slot waits for its beginning", "checkpoints_while_the_slot_waits"),
    ),
    f"{SPECS}/slot_creation_error.spec": (_not("making a slot is cancelled", "about the server's session"),),
    f"{SPECS}/snapshot_transfer.spec": (
        _by("a snapshot first taken in a subtransaction", "snapshot_taken_in_a_subtransaction"),
    ),
    f"{SPECS}/subxact_without_top.spec": (
        _by("subtransactions whose top is before the restart", "subtransactions_whose_top_is_before_the_restart"),
    ),
    f"{SPECS}/twophase_snapshot.spec": (
        _by("prepared before the consistent point", "prepared_before_the_consistent_point prepared_before_the_slot"),
    ),
    "contrib/test_decoding/t/001_repl_stats.pl": (_not("statistics over a restart", STATISTICS),),
    f"{SUBSCRIPTION}/001_rep_changes.pl": (
        _by("rows of tables with every kind of identity", "kinds_of_tables_in_one_publication"),
        _by("tables that enter and leave publications", "kinds_of_tables_in_one_publication publications"),
        _by("long values changed and left alone", "kinds_of_tables_in_one_publication toast_unchanged"),
        _not("empty transactions, keepalives, a walsender that restarts", "about the walsender"),
    ),
    f"{SUBSCRIPTION}/002_types.pl": (
        _by("arrays, composites, enums, ranges, domains, hstore", "types_of_a_subscription types_of_extensions"),
        _in("values of every type", "tests/values"),
    ),
    f"{SUBSCRIPTION}/003_constraints.pl": (
        _by("foreign keys and triggers where rows are written", "foreign_keys_and_triggers"),
    ),
    f"{SUBSCRIPTION}/004_sync.pl": (_not("the first copy of tables", NO_APPLY),),
    f"{SUBSCRIPTION}/005_encoding.pl": (_in("databases that are not UTF-8", "tests/oracle/test_encodings.py"),),
    f"{SUBSCRIPTION}/006_rewrite.pl": (_by("tables rewritten between rows", "rewrites type_changes"),),
    f"{SUBSCRIPTION}/007_ddl.pl": (
        _not("statements about subscriptions", SUBSCRIBER),
        _in("publications that are missing", "tests/oracle/test_missing_publications.py"),
    ),
    f"{SUBSCRIPTION}/008_diff_schema.pl": (_by("other columns at the subscriber", "columns_come_and_go", SUBSCRIBER),),
    f"{SUBSCRIPTION}/009_matviews.pl": (_by("materialized views", "materialized_views_refreshed rewrites"),),
    f"{SUBSCRIPTION}/010_truncate.pl": (
        _by("TRUNCATE published or not, of several tables", "several_tables_truncated truncate publications"),
    ),
    f"{SUBSCRIPTION}/011_generated.pl": (
        _by("generated columns, published or not", "generated_columns generated_columns_published"),
    ),
    f"{SUBSCRIPTION}/012_collation.pl": (
        _by("keys of a nondeterministic collation", "keys_of_a_nondeterministic_collation"),
    ),
    f"{SUBSCRIPTION}/013_partition.pl": (
        _by(
            "partitions published as leaves or as their root, moved rows, truncates, new columns",
            "partitions_of_many_shapes partitions everything_published_as_its_root "
            "roots_and_leaves_in_different_publications partitions_detached_and_attached_while_written",
        ),
    ),
    f"{SUBSCRIPTION}/014_binary.pl": (
        _by("pgoutput's option binary, in every scenario", "types_of_a_subscription types_without_a_send_function"),
    ),
    f"{SUBSCRIPTION}/015_stream.pl": (
        _by("large transactions", "streamed_rows streamed_beside_each_other", STREAMING),
    ),
    f"{SUBSCRIPTION}/016_stream_subxact.pl": (_by("with subtransactions", "streamed_subtransactions", STREAMING),),
    f"{SUBSCRIPTION}/017_stream_ddl.pl": (_by("with definitions", "streamed_definitions", STREAMING),),
    f"{SUBSCRIPTION}/018_stream_subxact_abort.pl": (
        _by("with subtransactions rolled back", "streamed_subtransactions_rolled_back", STREAMING),
    ),
    f"{SUBSCRIPTION}/019_stream_subxact_ddl_abort.pl": (
        _by("with definitions rolled back", "streamed_definitions_rolled_back", STREAMING),
    ),
    f"{SUBSCRIPTION}/020_messages.pl": (_by("pgoutput's option messages", "messages another_database"),),
    f"{SUBSCRIPTION}/021_twophase.pl": (
        _by("prepared transactions, over a restart", "two_phase prepared_over_a_crash", TWO_PHASE),
    ),
    f"{SUBSCRIPTION}/022_twophase_cascade.pl": (
        _by("likewise, handed on", "two_phase origins_of_every_end", TWO_PHASE),
        _by("large ones", "streamed_prepared_of_another_origin", STREAMING),
    ),
    f"{SUBSCRIPTION}/023_twophase_stream.pl": (_by("large prepared transactions", "streamed_prepared", STREAMING),),
    f"{SUBSCRIPTION}/024_add_drop_pub.pl": (
        _by("publications added and dropped", "publications publications_changed_by_the_writer"),
        _in("publications that are missing at some time", "tests/oracle/test_missing_publications.py"),
    ),
    f"{SUBSCRIPTION}/025_rep_changes_for_schema.pl": (
        _by("schemas published", "schemas_published_and_renamed schemas_published_behind_an_open_transaction"),
    ),
    f"{SUBSCRIPTION}/026_stats.pl": (_not("statistics of subscriptions", SUBSCRIBER),),
    f"{SUBSCRIPTION}/027_nosuperuser.pl": (_not("whose rights apply changes", SUBSCRIBER),),
    f"{SUBSCRIPTION}/028_row_filter.pl": (
        _by(
            "row filters of tables and partitions, updates that enter or leave them, values out of line",
            "row_filter_of_inserts row_filter_turns_updates_into_others row_filters_of_two_publications "
            "row_filter_and_values_out_of_line row_filters_of_partitions row_filters_of_many_kinds",
        ),
    ),
    f"{SUBSCRIPTION}/029_on_error.pl": (_not("a transaction that is skipped when it cannot be applied", NO_APPLY),),
    f"{SUBSCRIPTION}/030_origin.pl": (_by("only what has no origin", "origins origins_of_every_end"),),
    f"{SUBSCRIPTION}/031_column_list.pl": (
        _by(
            "lists of columns, changed while written, with partitions and identities",
            "column_lists_change_behind_an_open_transaction column_lists_and_replica_identities "
            "column_lists_of_partitions column_list_of_later_behind_an_open_transaction",
        ),
        _in("lists that contradict each other", "tests/oracle/test_random.py"),
    ),
    f"{SUBSCRIPTION}/032_subscribe_use_index.pl": (
        _by("whole rows beside every kind of index", "indexes_of_functions_and_predicates", SUBSCRIBER),
    ),
    f"{SUBSCRIPTION}/033_run_as_table_owner.pl": (_not("whose rights apply changes", SUBSCRIBER),),
    f"{SUBSCRIPTION}/034_temporal.pl": (_by("keys without overlaps", "temporal_keys"),),
    f"{SUBSCRIPTION}/035_conflicts.pl": (_not("conflicts when changes are applied", NO_APPLY),),
    f"{SUBSCRIPTION}/100_bugs.pl": (
        _by("indexes with functions in their predicates", "indexes_of_functions_and_predicates"),
        _by("updates of temporary and unlogged tables", "updates_of_tables_that_leave_no_log unlogged_and_temporary"),
        _by("another index as the identity", "identity_index_changed_before_a_row"),
        _by("a schema renamed and made again", "schema_renamed_and_made_again_in_one_transaction"),
        _by("whole rows with dropped and missing columns", "whole_rows_with_dropped_and_missing_columns"),
        _by("a row filter that fails", "row_filter_that_fails"),
        _not("tablesync, rights, subscriptions dropped", SUBSCRIBER),
    ),
    f"{RECOVERY}/006_logical_decoding.pl": (
        _by("decoding over a restart", "restart_in_the_middle crash_in_the_middle"),
        _in("an end before which decoding stops", "tests/oracle/test_random.py", "tests/slots"),
        _by("databases of others", "another_database databases_made_and_renamed_by_others"),
        _in("databases decoded together, and made amid it", "tests/oracle/test_databases.py"),
    ),
    f"{RECOVERY}/010_logical_decoding_timelines.pl": (_in("timelines", "tests/sources/test_timelines.py"),),
    f"{RECOVERY}/012_subtransactions.pl": (
        _by("many prepared subtransactions, over a crash", "thousands_of_subtransactions prepared_over_a_crash"),
    ),
    f"{RECOVERY}/035_standby_logical_decoding.pl": (
        _not("slots on a standby, and what invalidates them", "about the server's slots; the WAL is the primary's"),
    ),
    f"{RECOVERY}/038_save_logical_slots_shutdown.pl": (_in("a slot's progress on disk", "tests/slots"),),
    f"{RECOVERY}/040_standby_failover_slots_sync.pl": (
        _not("slots synchronised to a standby", "about the server's slots"),
    ),
    f"{RECOVERY}/044_invalidate_inactive_slots.pl": (_not("slots that nobody uses", "about the server's slots"),),
    f"{RECOVERY}/046_checkpoint_logical_slot.pl": (
        _in("a slot advanced while a checkpoint runs", "tests/slots", reason="about what WAL the server keeps"),
    ),
}
"""Cases by file."""
