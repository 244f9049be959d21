"""Values as a real server has stored and printed them: PostgreSQL 17, pgvector in 16, PostGIS in 15."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.catalog.relation import Column, ObjectNames, TypeInfo


@dataclass(frozen=True)
class StoredValue:
    """A value: its type, its payload without varlena header, what the server printed."""

    type: TypeInfo
    payload: bytes
    text: str


_TSVECTOR = TypeInfo(3614, "tsvector", "pg_catalog", "tsvector", "b", -1, "i", False)
_TSQUERY = TypeInfo(3615, "tsquery", "pg_catalog", "tsquery", "b", -1, "i", False)
_JSONPATH = TypeInfo(4072, "jsonpath", "pg_catalog", "jsonpath", "b", -1, "i", False)
_XML = TypeInfo(142, "xml", "pg_catalog", "xml", "b", -1, "i", False)
_PG_SNAPSHOT = TypeInfo(5038, "pg_snapshot", "pg_catalog", "pg_snapshot", "b", -1, "d", False)
_HSTORE = TypeInfo(16447, "hstore", "public", "hstore", "b", -1, "i", False, output="hstore:hstore_out")
_LTREE = TypeInfo(16697, "ltree", "public", "ltree", "b", -1, "i", False, output="ltree:ltree_out")
_LQUERY = TypeInfo(16751, "lquery", "public", "lquery", "b", -1, "i", False, output="ltree:lquery_out")
_LTXTQUERY = TypeInfo(16767, "ltxtquery", "public", "ltxtquery", "b", -1, "i", False, output="ltree:ltxtq_out")
_QUERY_INT = TypeInfo(16575, "query_int", "public", "query_int", "b", -1, "i", False, output="_int:bqarr_out")
_CUBE = TypeInfo(16889, "cube", "public", "cube", "b", -1, "d", False, output="cube:cube_out")
_BOOL = TypeInfo(16, "bool", "pg_catalog", "boolean", "b", 1, "c", True)
_INT8 = TypeInfo(20, "int8", "pg_catalog", "bigint", "b", 8, "d", True)
_TEXT = TypeInfo(25, "text", "pg_catalog", "text", "b", -1, "i", False)
_TEXT_ARRAY = TypeInfo(1009, "_text", "pg_catalog", "text[]", "b", -1, "i", False, element=_TEXT)
_INT4 = TypeInfo(23, "int4", "pg_catalog", "integer", "b", 4, "i", True)
_PAIR = TypeInfo(
    16386,
    "pair",
    "public",
    "pair",
    "c",
    -1,
    "d",
    False,
    attributes=(
        Column(1, "a", _INT4, -1, 4, "i", False),
        Column(2, "b", _TEXT, -1, -1, "i", False),
    ),
)
_TIMESTAMPTZ = TypeInfo(1184, "timestamptz", "pg_catalog", "timestamp with time zone", "b", 8, "d", True)
_INT2 = TypeInfo(21, "int2", "pg_catalog", "smallint", "b", 2, "s", True)
_VARCHAR = TypeInfo(1043, "varchar", "pg_catalog", "character varying", "b", -1, "i", False)
_WIDE = TypeInfo(
    16389,
    "wide",
    "public",
    "wide",
    "c",
    -1,
    "d",
    False,
    attributes=(
        Column(1, "flag", _BOOL, -1, 1, "c", False),
        Column(2, "big", _INT8, -1, 8, "d", False),
        Column(3, "words", _TEXT_ARRAY, -1, -1, "i", False),
        Column(4, "inner_pair", _PAIR, -1, -1, "d", False),
        Column(5, "at", _TIMESTAMPTZ, -1, 8, "d", False),
        Column(6, "small", _INT2, -1, 2, "s", False),
        Column(7, "note", _VARCHAR, 13, -1, "i", False),
    ),
)
_FLOAT8 = TypeInfo(701, "float8", "pg_catalog", "double precision", "b", 8, "d", True)
_CHANGED = TypeInfo(
    16395,
    "changed",
    "public",
    "changed",
    "c",
    -1,
    "d",
    False,
    attributes=(
        Column(1, "a", _INT4, -1, 4, "i", False),
        Column(2, "........pg.dropped.2........", None, -1, -1, "i", True),
        Column(3, "c", _FLOAT8, -1, 8, "d", False),
        Column(4, "........pg.dropped.4........", None, -1, -1, "i", True),
        Column(5, "e", _TEXT, -1, -1, "i", False),
        Column(6, "f", _INT2, -1, 2, "s", False),
    ),
)
_INT4RANGE = TypeInfo(3904, "int4range", "pg_catalog", "int4range", "r", -1, "i", False, subtype=_INT4)
_TEXTRANGE = TypeInfo(16416, "textrange", "public", "textrange", "r", -1, "i", False, subtype=_TEXT)
_NUMERIC = TypeInfo(1700, "numeric", "pg_catalog", "numeric", "b", -1, "i", False)
_NUMMULTIRANGE = TypeInfo(4532, "nummultirange", "pg_catalog", "nummultirange", "m", -1, "i", False, subtype=_NUMERIC)
_PAIR_ARRAY = TypeInfo(16385, "_pair", "public", "pair[]", "b", -1, "d", False, element=_PAIR, output="array_out")
_PAIRS = TypeInfo(16400, "pairs", "public", "pairs", "d", -1, "d", False, base=_PAIR_ARRAY)
_PAIRMULTIRANGE = TypeInfo(16424, "pairmultirange", "public", "pairmultirange", "m", -1, "d", False, subtype=_PAIR)
_GEOMETRY = TypeInfo(16390, "geometry", "public", "geometry", "b", -1, "d", False, output="postgis-3:LWGEOM_out")
_GEOGRAPHY = TypeInfo(17077, "geography", "public", "geography", "b", -1, "d", False, output="postgis-3:geography_out")
_VECTOR = TypeInfo(16385, "vector", "public", "vector", "b", -1, "i", False, output="vector:vector_out")
_HALFVEC = TypeInfo(16498, "halfvec", "public", "halfvec", "b", -1, "i", False, output="vector:halfvec_out")
_SPARSEVEC = TypeInfo(16633, "sparsevec", "public", "sparsevec", "b", -1, "i", False, output="vector:sparsevec_out")
_SEG = TypeInfo(17057, "seg", "public", "seg", "b", 12, "i", False, output="seg:seg_out")
_EAN13 = TypeInfo(16385, "ean13", "public", "ean13", "b", 8, "d", True, output="isn:ean13_out")
_ISBN = TypeInfo(16401, "isbn", "public", "isbn", "b", 8, "d", True, output="isn:isn_out")
_ISSN = TypeInfo(16409, "issn", "public", "issn", "b", 8, "d", True, output="isn:isn_out")
_PG_NDISTINCT = TypeInfo(3361, "pg_ndistinct", "pg_catalog", "pg_ndistinct", "b", -1, "i", False)
_PG_DEPENDENCIES = TypeInfo(3402, "pg_dependencies", "pg_catalog", "pg_dependencies", "b", -1, "i", False)
_ROLES = ObjectNames(bytes.fromhex("2d0d000068100000"), "pg_monitor\0pg_signal_backend")
_ACLITEM = TypeInfo(1033, "aclitem", "pg_catalog", "aclitem", "b", 16, "d", False, names=_ROLES)
_REGCLASS = TypeInfo(
    *(2205, "regclass", "pg_catalog", "regclass", "b", 4, "i", True),
    names=ObjectNames(bytes.fromhex("00000000eb040000"), "-\0pg_class"),
)

STORED = [
    StoredValue(
        _TSVECTOR,
        bytes.fromhex("030000000e0000000370000007e000004f27427269656e61020001c00280635c640001000300"),
        "'O''Brien' 'a':1A,2B 'c\\\\d':3",
    ),
    StoredValue(
        _TSQUERY,
        bytes.fromhex(
            "0a000000020300000600000000000000020401000400000000000000020403000200000000000000010000001f2bd38901a0000001000000a57ada100180000001000000334add670160000002010000010000000000000002020000020000000000000001000000179d243103200000010c0100bcbeb71701000000610062276300640065006600"
        ),
        "!( 'a':*AB & 'b''c' ) | 'd' <-> ( 'e' <3> 'f' )",
    ),
    StoredValue(
        _JSONPATH,
        bytes.fromhex(
            "010000001b00000008000000190000000e000000010000006100170056000000020000001a00000000000000280000004e00000002000000000000001800000000800f00000000000e000000160000002800000000000000020000000000000020000000008001002800000000000000180000001000000002000000ffffffff1d000000ac0000000c000000050000000000000010000000840000000400000000000000100000004a0000000b0000000000000010000000280000001a000000080000001900000000000000030000006b20650002000000000000002800000080a0010088130600000000000a0000002a00000000000000110000001800000003000000785c64001a000000000000001e000000000000000c0000001a0000000800000020000000000000001f00000000000000"
        ),
        'strict $."a"[0,last - 1 to last].**{2 to last}?(@."k e" > -1.5 && !(@ like_regex "x\\\\d" flag "iq") || exists (@.size())).type()',  # noqa: E501
    ),
    StoredValue(
        _JSONPATH,
        bytes.fromhex(
            "010000801b00000008000000190000000e0000000100000061002e002e0000000e0000001e0000000200000000000000200000000080050002000000000000002000000000800200320000001c0000000c0000000200000000000000200000000080030031000000080000001d000000000000000c00000007000000000000000c000000290000000000000010000000180000001a000000000000000100000000000000010000006200"
        ),
        '$."a".decimal(5,2).time(3).string()?((@ starts with "b") is unknown)',
    ),
    StoredValue(
        _XML,
        bytes.fromhex(
            "3c3f786d6c2076657273696f6e3d27312e312720656e636f64696e673d275554462d3827207374616e64616c6f6e653d27796573273f3e3c613e783c2f613e"
        ),
        '<?xml version="1.1" standalone="yes"?><a>x</a>',
    ),
    StoredValue(
        _PG_SNAPSHOT,
        bytes.fromhex("020000000300000000000000090000000000000004000000000000000500000000000000"),
        "3:9:4,5",
    ),
    StoredValue(
        _HSTORE, bytes.fromhex("020000800100008001000040040000000600000064612262635c"), '"d"=>NULL, "a\\"b"=>"c\\\\"'
    ),
    StoredValue(_LTREE, bytes.fromhex("020000000300546f700000000300785f31000000"), "Top.x_1"),
    StoredValue(
        _LQUERY,
        bytes.fromhex(
            "0300000001000000000000003000160002000000000000000000000043beb7e8010004610000000000000000ca1fd91e030002546f700000000000001000000000000200ffff000000000000200020000100010001000000000000008316dc8c010000780000000000000000"
        ),
        "!a%|Top@.*{2,}.x{1}",
    ),
    StoredValue(
        _LTXTQUERY,
        bytes.fromhex(
            "06000000030002002600000000000000020000006fdfb90600010400030001002100000000000000030002007c0000000000000002000000f9efbe71010102000200000043beb7e800010000610062006300"
        ),
        "!( a | b* ) & c",
    ),
    StoredValue(
        _QUERY_INT,
        bytes.fromhex(
            "08000000020000000100000002000000020000000300feff7c0000000300ffff21000000020000000300000002000000fcffffff0300feff7c0000000300fcff26000000"
        ),
        "!( 1 | 2 ) & ( 3 | -4 )",
    ),
    StoredValue(
        _CUBE,
        bytes.fromhex("02000000000000000000f03f0000000000000440000000000000084048afbc9af2d79abe"),
        "(1, 2.5),(3, -4e-07)",
    ),
    StoredValue(
        _WIDE,
        bytes.fromhex(
            "ffffffff05400000ffffffff000007000300185f01000000000000000c000000000000004b0100000020000000190000000200000001000000010000000000000014000000610000003bffffffff02400000ffffffff00000200020018000100000009782c790000000000000886724183b502000b6e6f7465"
        ),
        '(t,12,"{a,NULL}","(1,""x,y"")","2024-02-29 12:34:56.789+00",,note)',
    ),
    StoredValue(
        _CHANGED,
        bytes.fromhex("ffffffff0b400000ffffffff00000600030018150100000000000000000000000000f83f0d6120227122"),
        '(1,1.5,"a ""q""",)',
    ),
    StoredValue(_INT4RANGE, bytes.fromhex("400f0000010000000500000002"), "[1,5)"),
    StoredValue(_TEXTRANGE, bytes.fromhex("2040000009612c620963226404"), '("a,b","c""d"]'),
    StoredValue(
        _NUMMULTIRANGE,
        bytes.fromhex("b41100000200000010000000021000000f8080010088130f80800200881300000b00800300000000"),
        "{[1.5,2.5),(3,)}",
    ),
    StoredValue(
        _PAIRS,
        bytes.fromhex(
            "0100000020000000024000000200000001000000010000000000000080000000ffffffff02400000ffffffff00000200020018000100000009612062"
        ),
        '{"(1,\\"a b\\")",NULL}',
    ),
    StoredValue(
        _PAIRMULTIRANGE,
        bytes.fromhex(
            "28400000010000000200000037ffffffff02400000ffffffff000002000200180001000000056137ffffffff02400000ffffffff00000200020018000200000005620000"
        ),
        '{["(1,a)","(2,b)")}',
    ),
    StoredValue(
        _GEOMETRY,
        bytes.fromhex("0010e6430100000001000000000000000000f03f000000000000004000000000000008400000000000001040"),
        "01010000E0E6100000000000000000F03F000000000000004000000000000008400000000000001040",
    ),
    StoredValue(
        _GEOMETRY,
        bytes.fromhex(
            "0000004400000000000010410000000000001041070000000400000001000000000000000300000001000000040000000000000000000000000000000000000000000000000000000000f03f0000000000000000000000000000f03f000000000000f03f0000000000000000000000000000000004000000020000000100000001000000000000000000f03f000000000000f03f0100000001000000000000000000004000000000000000400e0000000400000000000000000000000000000000000000000000000000000000000000000022400000000000002240000000000000000000000000000000000000000000000000"
        ),
        "0107000000040000000101000000000000000000F87F000000000000F87F0103000000010000000400000000000000000000000000000000000000000000000000F03F0000000000000000000000000000F03F000000000000F03F000000000000000000000000000000000104000000020000000101000000000000000000F03F000000000000F03F0101000000000000000000004000000000000000400111000000010000000400000000000000000000000000000000000000000000000000000000000000000022400000000000002240000000000000000000000000000000000000000000000000",
    ),
    StoredValue(
        _GEOGRAPHY,
        bytes.fromhex("0010e6480200000002000000000000000000f03f000000000000004000000000000008400000000000001240"),
        "0102000020E610000002000000000000000000F03F000000000000004000000000000008400000000000001240",
    ),
    StoredValue(_VECTOR, bytes.fromhex("030000000000803f000020409063738e"), "[1,2.5,-3e-30]"),
    StoredValue(_HALFVEC, bytes.fromhex("04000000003cff7b010054b5"), "[1,65504,5.9604645e-08,-0.3330078]"),
    StoredValue(
        _SPARSEVEC, bytes.fromhex("05000000020000000000000000000000020000000000c03f000000c0"), "{1:1.5,3:-2}/5"
    ),
    StoredValue(_SEG, bytes.fromhex("0000c0bff902955003017e3c"), "~-1.50 .. <2e+10"),
    StoredValue(_EAN13, bytes.fromhex("3ab1b459ca110000"), "978-0-393-04002-9"),
    StoredValue(_ISBN, bytes.fromhex("3ab1b459ca110000"), "0-393-04002-X"),
    StoredValue(_ISSN, bytes.fromhex("5051ff2dc6110000"), "1436-4522"),
    StoredValue(
        _PG_NDISTINCT,
        bytes.fromhex(
            "a4bf52a30100000004000000000000000000084002000000010002000000000000804040020000000100030000000000008040400200"
            "000002000300000000000080404003000000010002000300"
        ),
        '{"1, 2": 3, "1, 3": 33, "2, 3": 33, "1, 2, 3": 33}',
    ),
    StoredValue(
        _PG_DEPENDENCIES,
        bytes.fromhex(
            "2c9a54b40100000004000000000000000000f03f020001000200000000000000f03f020002000100000000000000f03f030001000300"
            "0200000000000000f03f0300020003000100"
        ),
        '{"1 => 2": 1.000000, "2 => 1": 1.000000, "1, 3 => 2": 1.000000, "2, 3 => 1": 1.000000}',
    ),
    StoredValue(_ACLITEM, bytes.fromhex("2d0d0000681000000600000002000000"), "pg_monitor=r*w/pg_signal_backend"),
    StoredValue(_REGCLASS, bytes.fromhex("eb040000"), "pg_class"),
    StoredValue(_REGCLASS, bytes.fromhex("00000000"), "-"),
    StoredValue(_REGCLASS, bytes.fromhex("ffffffff"), "4294967295"),
]
