"""Write ``src/headwater/pg/conversions.zip`` from a running server: what becomes of each character.

Usage: ``python tools/generate_conversions.py DSN`` (a superuser's; takes some minutes)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import psycopg
from numpy.typing import NDArray

from headwater.pg.conversions import NOTHING, as_bytes, changed, pack, turned
from headwater.pg.encodings import CHARACTERS, ENCODINGS, SINGLE_BYTES, UTF8, byte_ranges

FILE = Path(__file__).parents[1] / "src" / "headwater" / "pg" / "conversions.zip"
AT_ONCE = 4096
MOST_BYTES = 6
"""What a character becomes has no more; two that do together become what each becomes."""

PAIRS = """
SELECT pg_encoding_to_char(conforencoding), pg_encoding_to_char(contoencoding) FROM pg_conversion WHERE condefault
"""
FUNCTION = """
CREATE FUNCTION pg_temp.converted(characters bytea[], source name, target name) RETURNS bytea[] LANGUAGE plpgsql AS $$
DECLARE
  found bytea[] := array_fill(NULL::bytea, ARRAY[cardinality(characters)]);
  place int := 0;
  one bytea;
BEGIN
  FOREACH one IN ARRAY characters LOOP
    place := place + 1;
    BEGIN
      found[place] := convert(one, source, target);
    EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN NULL;
    END;
  END LOOP;
  RETURN found;
END $$
"""
_LIMITED = {
    "UTF8": (*CHARACTERS["UTF8"].split("; ")[:4], "f0 90-af 80-bf 80-bf"),
    "MULE_INTERNAL": (*CHARACTERS["MULE_INTERNAL"].split("; ")[:3], "9c-9d 95-96,f0-fe 80-ff 80-ff"),
}
_ALL_OF_UTF8 = ("GB18030",)

Int64s = NDArray[np.int64]
Conversion = tuple[Int64s, Int64s]


def pairs(connection: psycopg.Connection[Any]) -> list[tuple[str, str]]:
    """List the conversions from an encoding that a database can have."""
    rows = connection.execute(PAIRS).fetchall()
    return sorted((source, target) for source, target in rows if source in ENCODINGS)


def valid_characters(encoding: str) -> Iterator[bytes]:
    """Give all characters beyond ASCII of an encoding."""
    for kind in CHARACTERS.get(encoding, SINGLE_BYTES).split("; "):
        yield from map(bytes, product(*map(byte_ranges, kind.split())))


def candidates(source: str, target: str) -> list[bytes]:
    """List the characters that a conversion may make anything of; of others the tests ask servers for a sample."""
    kinds = _LIMITED.get(source, ()) if target not in _ALL_OF_UTF8 else ()
    if not kinds:
        return list(valid_characters(source))
    return [bytes(char) for kind in kinds for char in product(*map(byte_ranges, kind.split()))]


def ask(connection: psycopg.Connection[Any], source: str, target: str, characters: Sequence[bytes]) -> Conversion:
    """Ask a server what it makes of characters; return those of which it makes anything, with what it makes."""
    keys, values = [], []
    call = "SELECT pg_temp.converted(%s, %s, %s)"
    for at in range(0, len(characters), AT_ONCE):
        asked = characters[at : at + AT_ONCE]
        row = connection.execute(call, [asked, source, target], binary=True).fetchone()
        assert row is not None
        there = [(char, made) for char, made in zip(asked, row[0], strict=True) if made and len(made) <= MOST_BYTES]
        keys += [int.from_bytes(char, "big") for char, _ in there]
        values += [int.from_bytes(made, "big") for _, made in there]
    order = np.argsort(np.array(keys, np.int64))
    return np.array(keys, np.int64)[order], np.array(values, np.int64)[order]


def composed(conversions: Iterable[Conversion]) -> list[bytes]:
    """List the texts in UTF8 of two characters that some conversions make of one character."""
    texts = {as_bytes(value) for _, values in conversions for value in values[values >= 1 << 32].tolist()}
    return sorted(text for text in texts if len(text.decode()) == 2)


def without_parts(keys: Int64s, values: Int64s, lone: Conversion) -> Conversion:
    """Choose the pairs of characters that become another thing than what their parts become."""
    single = dict(zip(*(numbers.tolist() for numbers in lone), strict=True))
    differs = []
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        parts = [single.get(int.from_bytes(char.encode(), "big")) for char in as_bytes(key).decode()]
        differs.append(None in parts or b"".join(as_bytes(part) for part in parts if part) != as_bytes(value))
    return keys[np.array(differs, bool)], values[np.array(differs, bool)]


def differences(base: Conversion, wanted: Conversion) -> Conversion:
    """Find what must be changed in one conversion to get the other."""
    before, after = (dict(zip(*(numbers.tolist() for numbers in side), strict=True)) for side in (base, wanted))
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return np.array(keys, np.int64), np.array([after.get(key, NOTHING) for key in keys], np.int64)


def converted(connection: psycopg.Connection[Any]) -> dict[tuple[str, str], Conversion]:
    """Ask for all conversions; those from UTF8 come last."""
    connection.execute(FUNCTION)
    conversions: dict[tuple[str, str], Conversion] = {}
    for source, target in sorted(pairs(connection), key=lambda pair: (pair[0] == UTF8, pair)):
        lone = ask(connection, source, target, candidates(source, target))
        if source == UTF8:
            to_unicode = [conversion for (_, other), conversion in conversions.items() if other == UTF8]
            two = ask(connection, source, target, composed(to_unicode))
            lone = changed(*lone, *without_parts(*two, lone))
        conversions[source, target] = lone
        print(source, target, len(lone[0]), file=sys.stderr)
    return conversions


def main() -> None:
    """Write the file."""
    with psycopg.connect(sys.argv[1]) as connection:
        conversions = converted(connection)
    with ZipFile(FILE, "w", ZIP_STORED) as members:
        for (source, target), (keys, values) in conversions.items():
            packed = pack(keys, values)
            if source == UTF8 and (target, source) in conversions:
                packed = pack(*differences(turned(*conversions[target, source]), (keys, values)), is_turned=True)
            members.writestr(ZipInfo(f"{source}-{target}"), packed)


if __name__ == "__main__":
    main()
