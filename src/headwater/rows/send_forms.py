"""Which binary form the values of each type are sent in.

PostgreSQL: ``pg_type.dat`` (typsend of the built-in types), ``lsyscache.c`` (getTypeBinaryOutputInfo). The server's own
types are known by their OID, enums, arrays, composites, ranges and multiranges by their shape, types of extensions and
of users by the C function that sends them. pgoutput sends values of a type without such a function as text.
"""

from __future__ import annotations

from headwater.catalog.relation import TypeInfo
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.rows import _send_codes as sent
from headwater.rows import _text_codes as codes

_ACLITEM, _GTSVECTOR = 1033, 3642

_TEXT = sent.SEND_TEXT | codes.CODE_VERBATIM
_BYTES = sent.SEND_BYTES | codes.CODE_VERBATIM

_SEND_CODES = {
    16: sent.SEND_OWN | codes.CODE_BOOL,
    17: _BYTES,
    18: _BYTES,
    19: sent.SEND_TEXT | codes.CODE_NAME,
    20: sent.SEND_INT8,
    21: sent.SEND_INT2,
    22: sent.SEND_OWN | codes.CODE_INT2VECTOR,
    23: sent.SEND_INT4,
    25: _TEXT,
    27: sent.SEND_TID,
    30: sent.SEND_OWN | codes.CODE_OIDVECTOR,
    114: _TEXT,
    142: sent.SEND_TEXT | codes.CODE_XML,
    194: _TEXT,
    600: sent.SEND_2_DOUBLES,
    601: sent.SEND_4_DOUBLES,
    602: sent.SEND_OWN | codes.CODE_PATH,
    603: sent.SEND_4_DOUBLES,
    604: sent.SEND_OWN | codes.CODE_POLYGON,
    628: sent.SEND_3_DOUBLES,
    650: sent.SEND_OWN | codes.CODE_CIDR,
    700: sent.SEND_INT4,
    701: sent.SEND_INT8,
    718: sent.SEND_3_DOUBLES,
    774: _BYTES,
    790: sent.SEND_INT8,
    829: _BYTES,
    869: sent.SEND_OWN | codes.CODE_INET,
    1042: _TEXT,
    1043: _TEXT,
    1082: sent.SEND_INT4,
    1083: sent.SEND_INT8,
    1114: sent.SEND_INT8,
    1184: sent.SEND_INT8,
    1186: sent.SEND_INTERVAL,
    1266: sent.SEND_TIMETZ,
    1560: sent.SEND_OWN | codes.CODE_BIT,
    1562: sent.SEND_OWN | codes.CODE_BIT,
    1700: sent.SEND_OWN | codes.CODE_NUMERIC,
    1790: _TEXT,
    2950: _BYTES,
    2970: sent.SEND_OWN | codes.CODE_SNAPSHOT,
    3220: sent.SEND_INT8,
    3361: _BYTES,
    3402: _BYTES,
    3614: sent.SEND_OWN | codes.CODE_TSVECTOR,
    3615: sent.SEND_OWN | codes.CODE_TSQUERY,
    3802: sent.SEND_VERSIONED | codes.CODE_JSONB,
    4072: sent.SEND_VERSIONED | codes.CODE_JSONPATH,
    4600: _BYTES,
    4601: _BYTES,
    5017: _BYTES,
    5038: sent.SEND_OWN | codes.CODE_SNAPSHOT,
    5069: sent.SEND_INT8,
    _ACLITEM: sent.SEND_NONE,
    _GTSVECTOR: sent.SEND_NONE,
}
"""By OID; bytea, uuid and the like are sent as they are stored."""

# regproc, oid, xid, cid, regprocedure, regoper, regoperator, regclass, regtype, regconfig, regdictionary, regnamespace,
# regrole, regcollation.
_SEND_CODES |= dict.fromkeys(
    (24, 26, 28, 29, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191), sent.SEND_INT4
)

_SHAPES = {
    "e": sent.SEND_TEXT | codes.CODE_ENUM,
    "c": sent.SEND_PARTS | codes.CODE_RECORD,
    "r": sent.SEND_PARTS | codes.CODE_RANGE,
    "m": sent.SEND_PARTS | codes.CODE_MULTIRANGE,
}

# By send function: types that are not the server's own. A library's name is that of its file.
_SEND_FUNCTIONS = {
    "textsend": _TEXT,
    "varcharsend": _TEXT,
    "bpcharsend": _TEXT,
    "byteasend": _BYTES,
    "json_send": _TEXT,
    "namesend": sent.SEND_TEXT | codes.CODE_NAME,
    "int2send": sent.SEND_INT2,
    "int4send": sent.SEND_INT4,
    "int8send": sent.SEND_INT8,
    "oidsend": sent.SEND_INT4,
    "float4send": sent.SEND_INT4,
    "float8send": sent.SEND_INT8,
    "numeric_send": sent.SEND_OWN | codes.CODE_NUMERIC,
    "boolsend": sent.SEND_OWN | codes.CODE_BOOL,
    "uuid_send": _BYTES,
    "jsonb_send": sent.SEND_VERSIONED | codes.CODE_JSONB,
    "timestamp_send": sent.SEND_INT8,
    "timestamptz_send": sent.SEND_INT8,
    "date_send": sent.SEND_INT4,
    "hstore:hstore_send": sent.SEND_OWN | codes.CODE_HSTORE,
    "ltree:ltree_send": sent.SEND_VERSIONED | codes.CODE_LTREE,
    "ltree:lquery_send": sent.SEND_VERSIONED | codes.CODE_LQUERY,
    "ltree:ltxtq_send": sent.SEND_VERSIONED | codes.CODE_LTXTQUERY,
    "postgis-3:LWGEOM_send": sent.SEND_DIGITS | codes.CODE_POSTGIS,
    "postgis-3:geography_send": sent.SEND_DIGITS | codes.CODE_POSTGIS,
    "cube:cube_send": sent.SEND_OWN | codes.CODE_CUBE,
    "vector:vector_send": sent.SEND_OWN | codes.CODE_VECTOR,
    "vector:halfvec_send": sent.SEND_OWN | codes.CODE_HALFVEC,
    "vector:sparsevec_send": sent.SEND_OWN | codes.CODE_SPARSEVEC,
}


def has_send_function(base: TypeInfo) -> bool:
    """Whether a type, domains looked through, has a send function (pg_type.typsend is not 0)."""
    return send_code(base) != sent.SEND_NONE


def send_code(base: TypeInfo) -> int:
    """The code of a type's binary form by its own shape, whatever it is made of, domains looked through.

    CODE_NONE if it has a send function that is not known here, SEND_NONE if it has none.
    """
    if base.oid in _SEND_CODES:
        return _SEND_CODES[base.oid]
    if base.element is not None:
        return sent.SEND_PARTS | codes.CODE_ARRAY
    if base.typtype in _SHAPES:
        return _SHAPES[base.typtype]
    if base.send or base.oid < FIRST_NORMAL_OBJECT_ID:
        return _SEND_FUNCTIONS.get(base.send, codes.CODE_NONE)
    return sent.SEND_NONE
