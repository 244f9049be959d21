"""Files of a base backup in archives, as they are and compressed."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from arrow_types import Codec
from headwater.catalog.copy.data_directory import open_tree
from headwater.catalog.copy.server_settings import read_server_settings
from headwater.errors import CatalogError

FILES = {
    "backup_label": b"START",
    "./PG_VERSION": b"16\n",
    "base/5/1259": b"class" * 1000,
    "base/5/1259.1": b"more",
    "base/5/16400": b"rewritten" * 5000,
    "base/5/16400.1": b"second segment",
    "base/5/16401": b"a table",
    "base/5/pg_filenode.map": b"map",
    "pg_xact/0000": b"log",
    "pg_twophase/00000300": b"state",
    "pg_stat/x/y": b"deep",
    "conf.d/one.conf": b"timezone = UTC",
    "postgresql.conf": b"include 'base.conf'\ninclude_dir 'conf.d'",
    "base.conf": b"bytea_output = escape",
}
FORMS: dict[str, Codec | None] = {"": None, ".gz": "gzip", ".lz4": "lz4", ".zst": "zstd"}


def archive(path: Path, files: dict[str, bytes], codec: Codec | None = None) -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    if codec is None:
        path.write_bytes(buffer.getvalue())
    else:
        with pa.output_stream(str(path), compression=codec) as sink:
            sink.write(buffer.getvalue())
    return path


@pytest.mark.parametrize("suffix", FORMS)
def test_files_by_name(tmp_path: Path, suffix: str) -> None:
    archive(tmp_path / f"base.tar{suffix}", FILES, FORMS[suffix])
    archive(tmp_path / f"16384.tar{suffix}", {"PG_16_202307071/5/1259": b"far"}, FORMS[suffix])
    tree = open_tree(tmp_path)
    tree.expect(["base/5/16400", "base/5/9999"])
    for name, data in FILES.items():
        assert tree.exists(name.removeprefix("./"))
        assert tree.read(name.removeprefix("./")) == data
    assert tree.read("pg_tblspc/16384/PG_16_202307071/5/1259") == b"far"
    assert tree.names("pg_xact") == ["0000"]
    assert (tree.names("pg_stat"), tree.names("pg_nothing")) == ([], [])
    assert not tree.exists("base/5/1249")
    assert tree.place("base/5/1249") == f"{tmp_path}/base.tar{suffix}:base/5/1249"
    assert open_tree(tmp_path) is tree


@pytest.mark.parametrize("suffix", FORMS)
def test_configuration_that_is_included(tmp_path: Path, suffix: str) -> None:
    archive(tmp_path / f"base.tar{suffix}", FILES, FORMS[suffix])
    settings = {name: setting.value for name, setting in read_server_settings(tmp_path).items()}
    assert settings == {"timezone": "UTC", "bytea_output": "escape"}


def test_an_archive_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    base = archive(tmp_path / "base.tar", {"PG_VERSION": b"15\n"})
    assert open_tree(base).read("PG_VERSION") == b"15\n"
    base.unlink()
    archive(base, {"PG_VERSION": b"16\n", "backup_label": b""})
    assert open_tree(base).read("PG_VERSION") == b"16\n"


@pytest.mark.parametrize(
    ("name", "message", "place"),
    [
        ("base/5/1", "no such member", "base.tar:base/5/1"),
        ("pg_tblspc/1/PG_16/5/1", "no such archive", "1.tar:PG_16/5/1"),
    ],
)
def test_missing(tmp_path: Path, name: str, message: str, place: str) -> None:
    archive(tmp_path / "base.tar", FILES)
    with pytest.raises(CatalogError, match=message) as caught:
        open_tree(tmp_path).read(name)
    assert caught.value.file == f"{tmp_path}/{place}"


@pytest.mark.parametrize("suffix", FORMS)
@pytest.mark.parametrize("keep", [0.0, 0.4])
def test_cut(tmp_path: Path, suffix: str, keep: float) -> None:
    data = archive(tmp_path / f"base.tar{suffix}", FILES, FORMS[suffix]).read_bytes()
    cut = tmp_path / f"cut{suffix}" / f"base.tar{suffix}"
    cut.parent.mkdir()
    cut.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(CatalogError, match=r"could not read archive: .") as caught:
        open_tree(cut).read("base/5/16400")
    assert caught.value.file == str(cut)


def header_with_size(kind: bytes, size: int) -> bytes:
    """Make a header, with a size in binary."""
    member = tarfile.TarInfo("base/5/1249")
    member.type = kind
    data = bytearray(member.tobuf(tarfile.USTAR_FORMAT))
    data[124:136] = (
        (1 << 95 | size & (1 << 88) - 1).to_bytes(12, "big") if size >= 0 else size.to_bytes(12, "big", signed=True)
    )
    data[148:156] = f"{sum(data[:148]) + 8 * 32 + sum(data[156:]):06o}\0 ".encode()
    return bytes(data)


@pytest.mark.parametrize("suffix", FORMS)
@pytest.mark.parametrize("kind", [b"0", b"x", b"g", b"L", b"K"])
@pytest.mark.parametrize("size", [-512, 1 << 40, (1 << 63) - 1, 1 << 80])
def test_sizes_that_cannot_be(tmp_path: Path, suffix: str, kind: bytes, size: int) -> None:
    whole = archive(tmp_path / "whole", FILES).read_bytes()
    path = tmp_path / f"base.tar{suffix}"
    with pa.output_stream(str(path), compression=FORMS[suffix]) as sink:  # type: ignore[arg-type]  # or None
        sink.write(header_with_size(kind, size) + whole)
    with pytest.raises(CatalogError, match=r"could not read archive: .") as caught:
        open_tree(tmp_path).read("base/5/1259")
    assert caught.value.file == str(path)


@pytest.mark.parametrize("suffix", FORMS)
@pytest.mark.parametrize("how", ["broken", "cut before", "cut inside"])
def test_a_header_that_is_not_whole_is_not_the_end(tmp_path: Path, suffix: str, how: str) -> None:
    """Members after it are missing: an archive ends with blocks of zeros only."""
    data = archive(tmp_path / "whole", FILES).read_bytes()
    at = data.index(b"base/5/16401")
    changed = {"broken": data[:at] + b"c" + data[at + 1 :], "cut before": data[:at], "cut inside": data[: at + 100]}
    path = tmp_path / f"base.tar{suffix}"
    with pa.output_stream(str(path), compression=FORMS[suffix]) as sink:  # type: ignore[arg-type]  # or None
        sink.write(changed[how])
    with pytest.raises(CatalogError, match=r"could not read archive: .") as caught:
        open_tree(tmp_path)
    assert caught.value.file == str(path)


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    for content in (b"", b"a base backup" * 99):
        (tmp_path / "notes").write_bytes(content)
        with pytest.raises(CatalogError, match="nor an archive of a base backup"):
            open_tree(tmp_path / "notes")
