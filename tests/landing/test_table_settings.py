"""Settings of tables: columns that do not land, and masks, with rows from before, windows, mirrors and DDL."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from headwater.cli.commands import cli
from headwater.errors import LakeError, UsageError
from headwater.jobs.engine import Engine
from headwater.lakes.iceberg_catalog import own_catalog
from headwater.lakes.landing_target import FORMATS, LandingTarget
from headwater.lakes.settings.table_settings import TableSettings
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from landing.mirrored_source import NEXT_WINDOW, Mirrored, Source
from landing.mirrors import read_table

pytestmark = [pytest.mark.server]

SECRET = b"pepper"
EMAILS = {"ann@a", "bob@b", "cat@c", "dan@d", "eve@e"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as server:
        yield Source(server, tmp_path_factory.mktemp("settings"))


def hashed(text: str) -> str:
    return hashlib.sha256(SECRET + text.encode()).hexdigest()


def keyed(text: str) -> str:
    return hmac.digest(SECRET, text.encode(), "sha256").hex()


def files_below(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())


def customers(name: str) -> list[str]:
    return [
        f"CREATE TABLE {name} (id int PRIMARY KEY, email text, ssn text, born date, phone char(12), n numeric)",
        f"ALTER TABLE {name} ALTER ssn SET STORAGE PLAIN",
        f"INSERT INTO {name} VALUES (1, 'ann@a', 'secret-1', '2000-01-02', '555-1234', 1.50), "
        f"(2, 'bob@b', 'secret-2', NULL, NULL, 2)",
    ]


def work(name: str) -> list[str]:
    return [
        f"INSERT INTO {name} VALUES (3, 'cat@c', 'secret-3', '1999-12-31', '555-9', 3)",
        f"UPDATE {name} SET email = 'dan@d' WHERE id = 2",
        NEXT_WINDOW,
        f"ALTER TABLE {name} RENAME ssn TO social",
        f"ALTER TABLE {name} RENAME email TO mail",
        f"INSERT INTO {name} VALUES (4, 'eve@e', 'secret-4', '2001-01-01', '1', 4)",
        f"ALTER TABLE {name} ADD ssn text DEFAULT 'secret-5'",
        f"UPDATE {name} SET social = 'secret-6' WHERE id = 1",
        NEXT_WINDOW,
        f"DELETE FROM {name} WHERE id = 3",
        f"UPDATE {name} SET id = 5, ssn = 'secret-7' WHERE id = 4",
    ]


RULES = {"email": "sha256", "born": "hmac-sha256", "phone": "keep-last:2", "n": "null"}


def settings(name: str, **others: Any) -> tuple[TableSettings, ...]:
    own = TableSettings((f"public.{name}",), exclude_columns=("ssn",), mask=RULES)
    return TableSettings(("public.*",), mask={"email": "null"}), replace(own, **others)


@pytest.mark.parametrize(
    ("format", "mode", "write_mode"),
    [
        ("parquet", "current", "copy-on-write"),
        *(
            pytest.param(format, mode, write_mode, marks=pytest.mark.slow)
            for format in FORMATS
            for mode, write_mode in (
                ("changelog", "copy-on-write"),
                ("current", "copy-on-write"),
                ("current", "merge-on-read"),
                ("history", "merge-on-read"),
            )
            if (format, mode, write_mode) != ("parquet", "current", "copy-on-write")
        ),
    ],
)
def test_excluded_and_masked_columns(
    engine: Engine, source: Source, tmp_path: Path, format: str, mode: str, write_mode: str
) -> None:
    """Nothing of them is anywhere, whatever they are called, and rows are the same but for them."""
    name = f"customer_{format}_{mode}_{write_mode[:4]}".replace("-", "")
    backup, _ = source.after(customers(name), work(name), [])
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    mirrored.target = LandingTarget(
        tmp_path / "lake", format, mode=mode, write_mode=write_mode, tables=settings(name), mask_secret=SECRET
    )
    mirrored.land(backup)
    table = read_table(mirrored.target.place / f"public.{name}", format)
    assert not {"ssn", "social", "ssn_2"} & set(table.column_names)
    assert [str(table.schema.field(column).type).removeprefix("large_") for column in RULES] == ["string"] * 4
    assert set(table["n"].to_pylist()) == {None}
    assert set(table["email"].to_pylist()) - {None} <= {hashed(email) for email in EMAILS}
    if mode == "current":
        assert sorted((row["id"], row["email"], row["born"], row["phone"]) for row in table.to_pylist()) == sorted(
            [
                (1, hashed("ann@a"), keyed("2000-01-02"), "******34"),
                (2, hashed("dan@d"), None, None),
                (5, hashed("eve@e"), keyed("2001-01-01"), "*"),
            ],
            key=lambda row: row[0],
        )
    mirrored.land(backup)
    content = files_below(tmp_path / "lake" / f"public.{name}")
    assert not [secret for secret in (b"secret-", b"ann@a", b"eve@e", b"555-") if secret in content]


def test_what_does_not_fit_is_refused_before_anything_lands(engine: Engine, source: Source, tmp_path: Path) -> None:
    backup, _ = source.after(customers("refused"), work("refused"), [])
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    here = LandingTarget(tmp_path / "lake", mode="current", mask_secret=SECRET)

    def refusal(target: LandingTarget, error: type[Exception] = LakeError) -> str:
        mirrored.target = target
        with pytest.raises(error) as raised:
            mirrored.land(backup)
        return str(raised.value)

    own = TableSettings(("public.refused",))
    assert 'no column "sn"' in refusal(replace(here, tables=(replace(own, exclude_columns=("sn",)),)))
    wild = TableSettings(("public.*",), mask={"emial": "null"})
    assert 'has a column "emial"' in refusal(replace(here, tables=(wild,)))
    assert "could not find its rows" in refusal(replace(here, tables=(replace(own, exclude_columns=("id",)),)))
    assert "has the mask null" in refusal(replace(here, tables=(replace(own, mask={"id": "null"}),)))
    both = (replace(own, exclude_columns=("ssn",)), TableSettings(("public.*",), mask={"ssn": "null"}))
    assert "is excluded and masked" in refusal(replace(here, tables=both), UsageError)
    without = replace(here, mask_secret=b"", tables=(replace(own, mask={"email": "hmac-sha256"}),))
    assert "needs a secret" in refusal(without, UsageError)
    assert not list(here.place.glob("public.refused/*"))

    landed = replace(here, tables=(replace(own, exclude_columns=("ssn",), mask={"id": "sha256"}),))
    mirrored.target = landed
    mirrored.land(backup)
    rows = read_table(here.place / "public.refused", "parquet")
    assert sorted(map(str, rows["id"].to_pylist())) == sorted(map(hashed, "125"))
    assert pa.types.is_string(rows.schema.field("id").type)
    assert "landed with other settings: exclude-columns, mask" in refusal(here)
    assert "another secret" in refusal(replace(landed, mask_secret=b"salt"))
    assert LandingTarget.at(here.place).tables[0].exclude_columns == ("ssn",)


@pytest.mark.parametrize("format", ["parquet", *(pytest.param(name, marks=pytest.mark.slow) for name in FORMATS[1:])])
def test_tables_of_one_target_have_several_modes(engine: Engine, source: Source, tmp_path: Path, format: str) -> None:
    """Mirrors, histories and changes beside each other; a rewrite and a type concern each as it does alone."""
    names = [f"{mode}_{format}" for mode in ("one", "now", "then", "log")]
    setup = [f"CREATE TABLE {name} (id int PRIMARY KEY, n int)" for name in names]
    setup += [f"INSERT INTO {name} VALUES (1, 1), (2, 2)" for name in names]
    work = [f"UPDATE {name} SET n = 9 WHERE id = 1" for name in names]
    work += [NEXT_WINDOW, *(f"ALTER TABLE {name} ALTER n TYPE bigint" for name in names)]
    work += [f"DELETE FROM {name} WHERE id = 2" for name in names]
    backup, held = source.after(setup, work, names)
    modes = {"now": "current", "then": "history", "log": "changelog"}
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    mirrored.target = LandingTarget(
        tmp_path / "lake",
        format,
        mode="current",
        write_mode="merge-on-read",
        tables=tuple(TableSettings((f"*.{name}_*",), mode) for name, mode in modes.items()),
    )
    mirrored.land(backup)
    for name in names[:2]:
        assert mirrored.rows(name, held[name][0]) == held[name][1]
    tables = {name: read_table(mirrored.target.place / f"public.{name}", format) for name in names}
    kinds = tables[names[3]]["_change_type"].to_pylist()
    assert sorted(map(str, kinds)) == ["delete", "read", "read", "update_postimage"]
    assert {"_valid_from", "_valid_to"} <= set(tables[names[2]].column_names)
    assert not [name for name in names[:2] if any(column.startswith("_") for column in tables[name].column_names)]
    mirrored.target = replace(mirrored.target, tables=mirrored.target.tables[:2])
    with pytest.raises(LakeError, match="landed with other settings: mode"):
        mirrored.land(backup)


PROPERTIES = {
    "delta": {"delta.logRetentionDuration": "interval 60 days", "delta.checkpointInterval": "7"},
    "iceberg": {"write.parquet.compression-codec": "zstd", "owner": "shop"},
}


@pytest.mark.slow
@pytest.mark.parametrize("write_mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("format", list(PROPERTIES))
def test_properties_are_the_tables_own(
    engine: Engine, source: Source, tmp_path: Path, format: str, write_mode: str
) -> None:
    """Given with the first commit or with one of later, they stay."""
    name = f"with_{format}_{write_mode[:4]}"
    backup, held = source.after(customers(name), work(name), [name])
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    own = TableSettings(f"public.{name}", properties=PROPERTIES[format])
    mirrored.target = LandingTarget(
        tmp_path / "lake", format, mode="current", write_mode=write_mode, tables=(replace(own),)
    )
    mirrored.land(backup)
    assert mirrored.rows(name, held[name][0]) == held[name][1]
    assert PROPERTIES[format].items() <= properties_of(mirrored.target.place, name, format).items()
    other = {list(PROPERTIES[format])[1]: "9"}
    more = replace(own, properties=other)
    with source.server.connect() as connection:
        connection.execute(f"INSERT INTO {name} (id) VALUES (77)")
        connection.execute(f"UPDATE {name} SET mail = 'x'")
    source.server.stop()
    source.server.start()
    mirrored.target = replace(mirrored.target, tables=(own, more))
    mirrored.land(backup)
    expected = {**PROPERTIES[format], **other}
    assert expected.items() <= properties_of(mirrored.target.place, name, format).items()
    mirrored.target = replace(mirrored.target, tables=(replace(own, properties={"headwater.source": "x"}),))
    with pytest.raises(UsageError, match="would ask more of who writes the table"):
        mirrored.land(backup)


def properties_of(place: Path, name: str, format: str) -> dict[str, str]:
    """Return the properties of a table."""
    if format == "delta":
        return dict(DeltaTable(str(place / f"public.{name}")).metadata().configuration)
    with closing(own_catalog(place)) as catalog:
        return dict(catalog.load_table(("public", name)).properties)


@pytest.mark.slow
def test_the_command_takes_them_from_the_file(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what lands again knows them, but for the secret, which is kept nowhere."""
    backup, _ = source.after(customers("told"), work("told"), [])
    (tmp_path / "pepper").write_bytes(SECRET + b"\n")
    file = tmp_path / "headwater.toml"
    file.write_text(
        f'[land]\nmode = "current"\nmask-secret-file = "{tmp_path / "pepper"}"\n[[land.table]]\n'
        'tables = "public.told"\nexclude-columns = ["ssn"]\nmask = { email = "hmac-sha256" }\n'
    )
    place = tmp_path / "lake"
    words = ["--wal", str(source.server.wal_directory), "--catalog", str(backup)]
    lands = ["land", "-q", *words, "--database", "postgres", "--to", str(place)]
    run = partial(CliRunner().invoke, cli)
    result = run([*lands, "--config", str(file)])
    assert result.exit_code == 0, result.output
    rows = read_table(place / "public.told", "parquet")
    assert sorted(map(str, rows["email"].to_pylist())) == sorted(map(keyed, ("ann@a", "dan@d", "eve@e")))
    again = run([*lands, "--mode", "current"])
    assert (again.exit_code, "no settings are given: --config" in str(again.exception or again.output)) != (0, True)
    monkeypatch.setenv("HEADWATER_MASK_SECRET", "pepper")
    reloaded = run(["lake", "reload", "-q", str(place), "public.told", *words])
    assert reloaded.exit_code == 0, reloaded.output
    after = read_table(place / "public.told", "parquet")
    # Rows that take the place of others land in the columns that the table has.
    assert after.column_names == rows.column_names
    assert sorted(map(str, after["email"].to_pylist())) == sorted(map(str, rows["email"].to_pylist()))
    assert not {"ssn", "social"} & set(after.column_names)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["current", "changelog"])
def test_columns_of_partitions_and_of_tables_that_take_over(
    engine: Engine, source: Source, tmp_path: Path, mode: str
) -> None:
    """Columns of a partition have other numbers than those of its root; a table that is made again has all anew."""
    name = f"parted_{mode}"
    setup = [
        f"CREATE TABLE {name} (id int, gone int, email text, n int, ssn text, PRIMARY KEY (id)) "
        "PARTITION BY RANGE (id)",
        f"ALTER TABLE {name} DROP gone",
        f"CREATE TABLE {name}_1 (ssn text, n int, id int NOT NULL, email text)",
        f"ALTER TABLE {name} ATTACH PARTITION {name}_1 FOR VALUES FROM (0) TO (100)",
        f"INSERT INTO {name} VALUES (1, 'ann@a', 11, 'secret-1')",
        f"CREATE TABLE again_{mode} (id int PRIMARY KEY, ssn text, email text)",
        f"INSERT INTO again_{mode} VALUES (1, 'secret-1', 'ann@a')",
    ]
    work = [
        f"INSERT INTO {name} VALUES (2, 'bob@b', 22, 'secret-2')",
        f"UPDATE {name} SET email = 'cat@c' WHERE id = 1",
        NEXT_WINDOW,
        f"ALTER TABLE {name} ALTER n TYPE text",
        f"INSERT INTO {name} VALUES (3, 'dan@d', '33', 'secret-3')",
        NEXT_WINDOW,
        f"DROP TABLE again_{mode}",
        f"CREATE TABLE again_{mode} (email text, id int PRIMARY KEY, ssn text)",
        f"INSERT INTO again_{mode} VALUES ('eve@e', 5, 'secret-5')",
    ]
    backup, _ = source.after(setup, work, [])
    mirrored = Mirrored(engine, source, tmp_path / "lake")
    own = TableSettings("public.parted_*,public.again_*", None, ("ssn",), {"email": "sha256", "n": "hmac-sha256"})
    mirrored.target = LandingTarget(tmp_path / "lake", mode=mode, tables=(own,), mask_secret=SECRET)
    mirrored.land(backup)
    rows = read_table(mirrored.target.place / f"public.{name}", "parquet").to_pylist()
    if mode == "current":
        assert sorted((row["id"], row["email"], row["n"]) for row in rows) == [
            (1, hashed("cat@c"), keyed("11")),
            (2, hashed("bob@b"), keyed("22")),
            (3, hashed("dan@d"), keyed("33")),
        ]
        again = read_table(mirrored.target.place / f"public.again_{mode}", "parquet").to_pylist()
        assert [(row["id"], row["email"]) for row in again] == [(5, hashed("eve@e"))]
    # Tables of other tests land there, too, as they are.
    folders = [*mirrored.target.place.glob("public.parted_*"), *mirrored.target.place.glob("public.again_*")]
    assert folders
    content = b"".join(map(files_below, folders))
    assert not [secret for secret in (b"secret-", b"ann@a", b"eve@e", b"dan@d") if secret in content]


@pytest.mark.slow
def test_rows_that_would_come_from_a_table_with_settings_are_refused(
    engine: Engine, source: Source, tmp_path: Path
) -> None:
    setup = [
        "CREATE TABLE whole (id int PRIMARY KEY, email text) PARTITION BY RANGE (id)",
        "CREATE TABLE apart (id int PRIMARY KEY, email text)",
        "INSERT INTO apart VALUES (1, 'ann@a')",
    ]
    work = ["ALTER TABLE whole ATTACH PARTITION apart FOR VALUES FROM (0) TO (100)"]
    backup, _ = source.after(setup, work, [])
    for patterns in ("public.whole", "public.apart"):
        mirrored = Mirrored(engine, source, tmp_path / patterns)
        own = TableSettings(patterns, mask={"email": "sha256"})
        mirrored.target = LandingTarget(tmp_path / patterns, mode="current", tables=(own,))
        with pytest.raises(LakeError, match="has settings of its own for columns"):
            mirrored.land(backup)
