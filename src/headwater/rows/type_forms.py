"""The forms of all types: the text, binary and Arrow form that the values of each one have.

The server's own types are known by their OID, which never changes; arrays, enums, composites, ranges and multiranges by
their shape. Types of extensions, and of users, are known by the C functions that print and send them. The server's own
functions are among these (a user's type may be printed by ``textout``). Types that other packages print, by the entry
point ``headwater.types`` (``extension_types.py``), are looked for after those.

A type that is not known has no text form here: its values are shown as stored bytes, or never printed, as the session
wants it. pgoutput sends values of a type without a send function as text.

PostgreSQL: ``pg_type.dat`` (typoutput, typsend), ``lsyscache.c`` (getTypeOutputInfo, getTypeBinaryOutputInfo,
get_type_io_data). ``tests/values/test_type_forms.py`` compares with ``pg_type`` of each major version.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headwater.catalog.relation import TypeInfo
from headwater.errors import PluginError
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.rows import _send_codes as sent
from headwater.rows import _text_codes as codes
from headwater.rows.extension_types import GROUP, added_type, is_added


@dataclass(frozen=True, slots=True)
class ArrowForm:
    """The form of a type's values in a typed column: Arrow's type, and Spark's name of it."""

    type: pa.DataType
    spark: str


@dataclass(frozen=True, slots=True)
class TypeForm:
    """The forms that a type's values have.

    Attributes:
        text: code of ``_text_codes``; CODE_NONE if they have no text form here.
        binary: code of ``_send_codes``; SEND_NONE if the type has no send function, CODE_NONE if it has one that is not
            known here.
        output: the C function that prints them (``TypeInfo.output``).
        send: the C function that sends them, empty for none.
        arrow: their form in typed columns.
    """

    text: int
    binary: int
    output: str = ""
    send: str = ""
    arrow: ArrowForm = ArrowForm(pa.string(), "STRING")


STRING = ArrowForm(pa.string(), "STRING")
_BOOLEAN = ArrowForm(pa.bool_(), "BOOLEAN")
_BINARY = ArrowForm(pa.binary(), "BINARY")
_SMALLINT = ArrowForm(pa.int16(), "SMALLINT")
_INT = ArrowForm(pa.int32(), "INT")
_BIGINT = ArrowForm(pa.int64(), "BIGINT")
_FLOAT = ArrowForm(pa.float32(), "FLOAT")
_DOUBLE = ArrowForm(pa.float64(), "DOUBLE")
_DATE = ArrowForm(pa.date32(), "DATE")
_TIMESTAMP_NTZ = ArrowForm(pa.timestamp("us"), "TIMESTAMP_NTZ")
_TIMESTAMP = ArrowForm(pa.timestamp("us", tz="UTC"), "TIMESTAMP")
_ARROW_FORMS = (
    *(_BOOLEAN, _BINARY, _SMALLINT, _INT, _BIGINT, _FLOAT, _DOUBLE, _DATE, _TIMESTAMP_NTZ, _TIMESTAMP),
    STRING,
)
ARROW_FORMS = {form.type: form for form in _ARROW_FORMS}
"""Types that a typed column can have, numerics of a precision apart."""

_TEXT = sent.SEND_TEXT | codes.CODE_VERBATIM
_AS_STORED = sent.SEND_BYTES | codes.CODE_VERBATIM
_POSTGIS = sent.SEND_DIGITS | codes.CODE_POSTGIS

BUILT_IN = {
    16: TypeForm(codes.CODE_BOOL, sent.SEND_OWN | codes.CODE_BOOL, "boolout", "boolsend", _BOOLEAN),
    17: TypeForm(codes.CODE_BYTEA, _AS_STORED, "byteaout", "byteasend", _BINARY),
    18: TypeForm(codes.CODE_CHAR, _AS_STORED, "charout", "charsend"),
    19: TypeForm(codes.CODE_NAME, sent.SEND_TEXT | codes.CODE_NAME, "nameout", "namesend"),
    20: TypeForm(codes.CODE_INT8, sent.SEND_INT8, "int8out", "int8send", _BIGINT),
    21: TypeForm(codes.CODE_INT2, sent.SEND_INT2, "int2out", "int2send", _SMALLINT),
    22: TypeForm(codes.CODE_INT2VECTOR, sent.SEND_OWN | codes.CODE_INT2VECTOR, "int2vectorout", "int2vectorsend"),
    23: TypeForm(codes.CODE_INT4, sent.SEND_INT4, "int4out", "int4send", _INT),
    24: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regprocout", "regprocsend"),
    25: TypeForm(codes.CODE_VERBATIM, _TEXT, "textout", "textsend"),
    26: TypeForm(codes.CODE_OID, sent.SEND_INT4, "oidout", "oidsend"),
    27: TypeForm(codes.CODE_TID, sent.SEND_TID, "tidout", "tidsend"),
    28: TypeForm(codes.CODE_OID, sent.SEND_INT4, "xidout", "xidsend"),
    29: TypeForm(codes.CODE_OID, sent.SEND_INT4, "cidout", "cidsend"),
    30: TypeForm(codes.CODE_OIDVECTOR, sent.SEND_OWN | codes.CODE_OIDVECTOR, "oidvectorout", "oidvectorsend"),
    114: TypeForm(codes.CODE_VERBATIM, _TEXT, "json_out", "json_send"),
    142: TypeForm(codes.CODE_XML, sent.SEND_TEXT | codes.CODE_XML, "xml_out", "xml_send"),
    194: TypeForm(codes.CODE_VERBATIM, _TEXT, "pg_node_tree_out", "pg_node_tree_send"),
    600: TypeForm(codes.CODE_POINT, sent.SEND_2_DOUBLES, "point_out", "point_send"),
    601: TypeForm(codes.CODE_LSEG, sent.SEND_4_DOUBLES, "lseg_out", "lseg_send"),
    602: TypeForm(codes.CODE_PATH, sent.SEND_OWN | codes.CODE_PATH, "path_out", "path_send"),
    603: TypeForm(codes.CODE_BOX, sent.SEND_4_DOUBLES, "box_out", "box_send"),
    604: TypeForm(codes.CODE_POLYGON, sent.SEND_OWN | codes.CODE_POLYGON, "poly_out", "poly_send"),
    628: TypeForm(codes.CODE_LINE, sent.SEND_3_DOUBLES, "line_out", "line_send"),
    650: TypeForm(codes.CODE_CIDR, sent.SEND_OWN | codes.CODE_CIDR, "cidr_out", "cidr_send"),
    700: TypeForm(codes.CODE_FLOAT4, sent.SEND_INT4, "float4out", "float4send", _FLOAT),
    701: TypeForm(codes.CODE_FLOAT8, sent.SEND_INT8, "float8out", "float8send", _DOUBLE),
    718: TypeForm(codes.CODE_CIRCLE, sent.SEND_3_DOUBLES, "circle_out", "circle_send"),
    774: TypeForm(codes.CODE_MACADDR8, _AS_STORED, "macaddr8_out", "macaddr8_send"),
    790: TypeForm(codes.CODE_MONEY, sent.SEND_INT8, "cash_out", "cash_send"),
    829: TypeForm(codes.CODE_MACADDR, _AS_STORED, "macaddr_out", "macaddr_send"),
    869: TypeForm(codes.CODE_INET, sent.SEND_OWN | codes.CODE_INET, "inet_out", "inet_send"),
    1033: TypeForm(codes.CODE_ACLITEM, sent.SEND_NONE, "aclitemout", ""),
    1042: TypeForm(codes.CODE_VERBATIM, _TEXT, "bpcharout", "bpcharsend"),
    1043: TypeForm(codes.CODE_VERBATIM, _TEXT, "varcharout", "varcharsend"),
    1082: TypeForm(codes.CODE_DATE, sent.SEND_INT4, "date_out", "date_send", _DATE),
    1083: TypeForm(codes.CODE_TIME, sent.SEND_INT8, "time_out", "time_send"),
    1114: TypeForm(codes.CODE_TIMESTAMP, sent.SEND_INT8, "timestamp_out", "timestamp_send", _TIMESTAMP_NTZ),
    1184: TypeForm(codes.CODE_TIMESTAMPTZ, sent.SEND_INT8, "timestamptz_out", "timestamptz_send", _TIMESTAMP),
    1186: TypeForm(codes.CODE_INTERVAL, sent.SEND_INTERVAL, "interval_out", "interval_send"),
    1266: TypeForm(codes.CODE_TIMETZ, sent.SEND_TIMETZ, "timetz_out", "timetz_send"),
    1560: TypeForm(codes.CODE_BIT, sent.SEND_OWN | codes.CODE_BIT, "bit_out", "bit_send"),
    1562: TypeForm(codes.CODE_BIT, sent.SEND_OWN | codes.CODE_BIT, "varbit_out", "varbit_send"),
    1700: TypeForm(codes.CODE_NUMERIC, sent.SEND_OWN | codes.CODE_NUMERIC, "numeric_out", "numeric_send"),
    1790: TypeForm(codes.CODE_VERBATIM, _TEXT, "textout", "textsend"),
    2202: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regprocedureout", "regproceduresend"),
    2203: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regoperout", "regopersend"),
    2204: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regoperatorout", "regoperatorsend"),
    2205: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regclassout", "regclasssend"),
    2206: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regtypeout", "regtypesend"),
    2950: TypeForm(codes.CODE_UUID, _AS_STORED, "uuid_out", "uuid_send"),
    2970: TypeForm(codes.CODE_SNAPSHOT, sent.SEND_OWN | codes.CODE_SNAPSHOT, "pg_snapshot_out", "pg_snapshot_send"),
    3220: TypeForm(codes.CODE_PG_LSN, sent.SEND_INT8, "pg_lsn_out", "pg_lsn_send"),
    3361: TypeForm(codes.CODE_NDISTINCT, _AS_STORED, "pg_ndistinct_out", "pg_ndistinct_send"),
    3402: TypeForm(codes.CODE_DEPENDENCIES, _AS_STORED, "pg_dependencies_out", "pg_dependencies_send"),
    3614: TypeForm(codes.CODE_TSVECTOR, sent.SEND_OWN | codes.CODE_TSVECTOR, "tsvectorout", "tsvectorsend"),
    3615: TypeForm(codes.CODE_TSQUERY, sent.SEND_OWN | codes.CODE_TSQUERY, "tsqueryout", "tsquerysend"),
    3642: TypeForm(codes.CODE_NONE, sent.SEND_NONE, "gtsvectorout", ""),
    3734: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regconfigout", "regconfigsend"),
    3769: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regdictionaryout", "regdictionarysend"),
    3802: TypeForm(codes.CODE_JSONB, sent.SEND_VERSIONED | codes.CODE_JSONB, "jsonb_out", "jsonb_send"),
    4072: TypeForm(codes.CODE_JSONPATH, sent.SEND_VERSIONED | codes.CODE_JSONPATH, "jsonpath_out", "jsonpath_send"),
    4089: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regnamespaceout", "regnamespacesend"),
    4096: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regroleout", "regrolesend"),
    4191: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regcollationout", "regcollationsend"),
    4600: TypeForm(codes.CODE_NONE, _AS_STORED, "brin_bloom_summary_out", "brin_bloom_summary_send"),
    4601: TypeForm(codes.CODE_NONE, _AS_STORED, "brin_minmax_multi_summary_out", "brin_minmax_multi_summary_send"),
    5017: TypeForm(codes.CODE_BYTEA, _AS_STORED, "pg_mcv_list_out", "pg_mcv_list_send"),
    5038: TypeForm(codes.CODE_SNAPSHOT, sent.SEND_OWN | codes.CODE_SNAPSHOT, "pg_snapshot_out", "pg_snapshot_send"),
    5069: TypeForm(codes.CODE_UINT8, sent.SEND_INT8, "xid8out", "xid8send"),
    6437: TypeForm(codes.CODE_UINT8, sent.SEND_INT8, "oid8out", "oid8send"),
    6490: TypeForm(codes.CODE_OBJECT, sent.SEND_INT4, "regdatabaseout", "regdatabasesend"),
}
"""The server's own types, of all major versions, by OID; numerics of a precision have an Arrow form of their own."""

_ARRAY = TypeForm(codes.CODE_ARRAY, sent.SEND_PARTS | codes.CODE_ARRAY)

_SHAPES = {
    "e": TypeForm(codes.CODE_ENUM, sent.SEND_TEXT | codes.CODE_ENUM),
    "c": TypeForm(codes.CODE_RECORD, sent.SEND_PARTS | codes.CODE_RECORD),
    "r": TypeForm(codes.CODE_RANGE, sent.SEND_PARTS | codes.CODE_RANGE),
    "m": TypeForm(codes.CODE_MULTIRANGE, sent.SEND_PARTS | codes.CODE_MULTIRANGE),
}
"""By ``typtype``."""

# Of libraries; a library's name is that of its file.
_EXTENSIONS = (
    TypeForm(codes.CODE_HSTORE, sent.SEND_OWN | codes.CODE_HSTORE, "hstore:hstore_out", "hstore:hstore_send"),
    TypeForm(codes.CODE_LTREE, sent.SEND_VERSIONED | codes.CODE_LTREE, "ltree:ltree_out", "ltree:ltree_send"),
    TypeForm(codes.CODE_LQUERY, sent.SEND_VERSIONED | codes.CODE_LQUERY, "ltree:lquery_out", "ltree:lquery_send"),
    TypeForm(codes.CODE_LTXTQUERY, sent.SEND_VERSIONED | codes.CODE_LTXTQUERY, "ltree:ltxtq_out", "ltree:ltxtq_send"),
    TypeForm(codes.CODE_QUERY_INT, sent.SEND_NONE, "_int:bqarr_out", ""),
    TypeForm(codes.CODE_POSTGIS, _POSTGIS, "postgis-3:LWGEOM_out", "postgis-3:LWGEOM_send"),
    TypeForm(codes.CODE_POSTGIS, _POSTGIS, "postgis-3:geography_out", "postgis-3:geography_send"),
    TypeForm(codes.CODE_CUBE, sent.SEND_OWN | codes.CODE_CUBE, "cube:cube_out", "cube:cube_send"),
    TypeForm(codes.CODE_ISN, sent.SEND_NONE, "isn:isn_out"),
    TypeForm(codes.CODE_EAN13, sent.SEND_NONE, "isn:ean13_out"),
    TypeForm(codes.CODE_SEG, sent.SEND_NONE, "seg:seg_out"),
    TypeForm(codes.CODE_VECTOR, sent.SEND_OWN | codes.CODE_VECTOR, "vector:vector_out", "vector:vector_send"),
    TypeForm(codes.CODE_HALFVEC, sent.SEND_OWN | codes.CODE_HALFVEC, "vector:halfvec_out", "vector:halfvec_send"),
    TypeForm(
        codes.CODE_SPARSEVEC, sent.SEND_OWN | codes.CODE_SPARSEVEC, "vector:sparsevec_out", "vector:sparsevec_send"
    ),
)

_OF_NAMES = (codes.CODE_OBJECT, codes.CODE_ACLITEM)
"""Printed by names that only the server's own types have (``TypeInfo.names``)."""

_BY_OUTPUT = {form.output: form for form in (*_EXTENSIONS, *BUILT_IN.values()) if form.text not in _OF_NAMES}
_BY_SEND = {form.send: form for form in (*_EXTENSIONS, *BUILT_IN.values()) if form.send}


def _own_form(base: TypeInfo) -> TypeForm | None:
    """Return the form of one of the server's own types, or of a shape; None for another type."""
    form = BUILT_IN.get(base.oid)
    if form is None:
        form = _ARRAY if base.element is not None else _SHAPES.get(base.typtype)
    return form


def is_built_in(base: TypeInfo) -> bool:
    """Tell whether a type is one of the server's own, which is printed as a whole, whatever it is made of."""
    return base.oid in BUILT_IN


def lacks_names(base: TypeInfo) -> bool:
    """Tell whether a type's values are printed by names of objects that are not known."""
    return base.oid in BUILT_IN and BUILT_IN[base.oid].text in _OF_NAMES and base.names is None


def form_code(base: TypeInfo) -> int:
    """Return the type code by a type's own shape, domains looked through; CODE_NONE if it has none.

    It does not depend on the parts of the type.
    """
    form = _own_form(base) or _BY_OUTPUT.get(base.output)
    if lacks_names(base):
        return codes.CODE_NONE
    if form is not None and form.text != codes.CODE_NONE:
        return form.text
    return codes.CODE_ADDED if is_added(base.output) else codes.CODE_NONE


def has_send_function(base: TypeInfo) -> bool:
    """Tell whether a type, domains looked through, has a send function (pg_type.typsend is not 0)."""
    return send_code(base) != sent.SEND_NONE


def send_code(base: TypeInfo) -> int:
    """Return the code of a type's binary form by its own shape, domains looked through.

    It does not depend on the parts of the type. CODE_NONE if it has a send function that is not known here, SEND_NONE
    if it has none.
    """
    form = _own_form(base)
    if form is not None:
        return form.binary
    if not base.send and base.oid >= FIRST_NORMAL_OBJECT_ID:
        return sent.SEND_NONE
    if base.send in _BY_SEND:
        return _BY_SEND[base.send].binary
    is_sent = is_added(base.output) and added_type(base.output).send is not None
    return sent.SEND_BYTES | codes.CODE_ADDED if is_sent else codes.CODE_NONE


def arrow_form(base: TypeInfo) -> ArrowForm:
    """Return the form of a type's values in a typed column, domains looked through.

    Raises:
        PluginError: a package says that they are of another type than :data:`ARROW_FORMS` has.
    """
    form = _own_form(base)
    if form is not None:
        return form.arrow
    arrow = added_type(base.output).arrow if form_code(base) == codes.CODE_ADDED else None
    if arrow is not None and arrow not in ARROW_FORMS:
        known = ", ".join(map(str, ARROW_FORMS))
        raise PluginError(f'type "{base.output}" of {GROUP} has Arrow type {arrow}', hint=f"supported are {known}")
    return ARROW_FORMS[arrow] if arrow is not None else STRING
