"""Numbers shared by the type-output kernels and the tables they read: statuses, type codes, slots of settings.

A type code says which output function of the server applies, so types with one text form share a code. Codes are not
stored anywhere: they may be renumbered at will.
"""

from __future__ import annotations

NEED_SPACE, CORRUPT, UNKNOWN_LABEL = -1, -2, -3
"""Statuses instead of the end of a kernel's text: `out` is too short; bytes no server writes; a label is gone."""

# The hot ones first, in the order in which the dispatcher asks for them.
CODE_NONE = 0
CODE_INT4 = 1
CODE_VERBATIM = 2  # text, varchar, bpchar, json, refcursor: the bytes are the text
CODE_INT8 = 3
CODE_NUMERIC = 4
CODE_TIMESTAMPTZ = 5
CODE_TIMESTAMP = 6
CODE_BOOL = 7
CODE_FLOAT8 = 8
CODE_DATE = 9
CODE_INT2 = 10
CODE_UUID = 11
CODE_JSONB = 12
CODE_ENUM = 13
CODE_FLOAT4 = 14
CODE_BYTEA = 15
CODE_OID = 16  # oid, xid, cid
CODE_NAME = 17
CODE_CHAR = 18
CODE_TIME = 19
CODE_TIMETZ = 20
CODE_INTERVAL = 21
CODE_UINT8 = 22  # xid8, oid8
CODE_PG_LSN = 23
CODE_TID = 24
CODE_BIT = 25  # bit, varbit
CODE_INET = 26
CODE_CIDR = 27
CODE_MACADDR = 28
CODE_MACADDR8 = 29
CODE_POINT = 30
CODE_LSEG = 31
CODE_BOX = 32
CODE_LINE = 33
CODE_CIRCLE = 34
CODE_PATH = 35
CODE_POLYGON = 36
CODE_INT2VECTOR = 37
CODE_OIDVECTOR = 38
CODE_ARRAY = 40  # made of other types, from here on
CODE_RECORD = 41
CODE_RANGE = 42
CODE_MULTIRANGE = 43  # to here
CODE_TSVECTOR = 44
CODE_TSQUERY = 45
CODE_JSONPATH = 46
CODE_XML = 47
CODE_SNAPSHOT = 48  # txid_snapshot, pg_snapshot
CODE_HSTORE = 49
CODE_LTREE = 50
CODE_CUBE = 51
CODE_VECTOR = 52
CODE_HALFVEC = 53
CODE_SPARSEVEC = 54
CODE_POSTGIS = 55  # geometry, geography
CODE_LQUERY = 56
CODE_LTXTQUERY = 57
CODE_QUERY_INT = 58
CODE_ADDED = 59  # another package prints it: the bytes as they are stored, meanwhile
CODE_HEX = 60  # no text form, but the bytes as they are stored are wanted
CODE_UNKNOWN = 61  # no text form: no kernel is ever asked to print such a value
CODE_MONEY = 62
CODE_STYLED_DATE = 63  # from here on: what other settings than the usual ones make of common types
CODE_STYLED_TIMESTAMP = 64
CODE_STYLED_TIMESTAMPTZ = 65
CODE_ROUNDED_FLOAT8 = 66
CODE_ROUNDED_FLOAT4 = 67  # to here
CODE_OBJECT = 68  # regclass and its kin: an object's name, or its OID
CODE_ACLITEM = 69
CODE_ISN = 70  # isbn, ismn, issn, upc
CODE_EAN13 = 71  # ean13, isbn13, ismn13, issn13
CODE_SEG = 72
CODE_NDISTINCT = 73
CODE_DEPENDENCIES = 74

SET_INFINITE_INTERVALS = 0
SET_BYTEA_ESCAPE = 1
SET_TZ_CYCLE = 2
SET_DATE_STYLE = 3
SET_DAY_FIRST = 4
SET_INTERVAL_STYLE = 5
SET_FLOAT8_DIGITS = 6
SET_FLOAT4_DIGITS = 7
SET_MONEY_DECIMALS = 8
SET_MONEY_GROUP = 9
SET_NARROW_INTERVALS = 10
SET_RAW_CHARS = 11
SET_BARE_NUMBERS = 12
SET_LSN_DIGITS = 13
SET_JSON_STATISTICS = 14
SET_SEG_BY_LOWER = 15
SETTINGS = 16
"""Slots of ``TextTables.settings``, and how many there are. The first three are 1 if it is so: an interval can be
infinite; bytea_output is escape; the time zone's last 400 years of transitions repeat for ever. Then: one of DATES_*;
1 if the day stands before the month (the order is DMY); one of INTERVALS_*; significant digits of floats, 0 for the
shortest exact form; decimals of an amount of money, and how many digits stand between its separators; 1 if an interval
has no more hours than an int, if a "char" is printed as the byte it is, if a number in a jsonpath has no parentheses
where a step follows; digits that an LSN's lower half has at least; 1 if extended statistics are printed as JSON; 1
if the lower bound's sign of a seg decides about the upper one's."""

DATES_ISO, DATES_SQL, DATES_POSTGRES, DATES_GERMAN = 0, 1, 2, 3
INTERVALS_POSTGRES, INTERVALS_VERBOSE, INTERVALS_SQL, INTERVALS_ISO = 0, 1, 2, 3

LABEL_SIZE = 11
"""Bytes of a slot with a time zone's abbreviation: its length, and up to ten (MAXTZLEN of ``utils/datetime.h``)."""

MONEY_BEFORE, MONEY_AFTER, MONEY_BEFORE_DEBT, MONEY_AFTER_DEBT, MONEY_POINT, MONEY_SEPARATOR, MONEY_PIECES = range(7)
"""Pieces of ``TextTables.money``: what stands before and after an amount, and one below zero; between its digits."""
