"""Mutated files: of data directories, archives, states and slots, timelines, packed segments."""

from __future__ import annotations

import gzip
import io
import os
import random
import shutil
import struct
import tarfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from arrow_types import Codec
from fuzz.corpus import SEGMENT, Corpus
from fuzz.kinds import Kind
from fuzz.mutations import Field, changed, u32, words_of
from fuzz.windows import PLUGINS, Window, closed_windows, plan
from headwater.base.value_codec import value_bytes
from headwater.catalog.copy.data_directory import DataDirectory, open_tree, running_server
from headwater.catalog.copy.prepared import prepared_transactions
from headwater.catalog.copy.server_settings import read_server_settings, session_settings_of
from headwater.catalog.store.bootstrap import open_catalog
from headwater.catalog.store.image_io import image_of
from headwater.errors import HeadwaterError
from headwater.pipeline.requests.named_catalog import state_in_file
from headwater.slots.kept_state import KeptState
from headwater.slots.slot import Slot, SlotRequest, SlotStatistics
from headwater.slots.value_file import load_value, save_value
from headwater.wal.checksum import crc32c
from headwater.wal.records.frames import read_frames
from headwater.wal.records.record import parse_record
from headwater.wal.segments.directory import WalDirectory

_LABEL = """START WAL LOCATION: 0/4000028 (file 000000010000000000000004)
CHECKPOINT LOCATION: 0/4000060
BACKUP METHOD: streamed
BACKUP FROM: primary
START TIME: 2024-05-06 07:08:09 UTC
LABEL: base
START TIMELINE: 1
"""
_CONF = """# settings
datestyle = 'iso, mdy'
TimeZone = 'Europe/Oslo' # here
bytea_output 'hex'
extra_float_digits = 1
"""
_CONTROL_CRC_AT = {14: 288, 15: 288, 16: 288, 17: 288, 18: 292}


def _tried(step: Callable[[], object]) -> int:
    """Tell whether a step that others follow ends with an error of ours."""
    try:
        step()
    except HeadwaterError:
        return 1
    return 0


def _with_crc(data: bytes, at: int) -> bytes:
    """Put the CRC-32C of what comes before it in its place."""
    return data[:at] + u32(crc32c(data[:at])) + data[at + 4 :] if len(data) >= at + 4 else data


def _small_files(corpus: Corpus) -> dict[str, bytes]:
    """Read the files of a backup that are no heaps, with a label, settings and a prepared transaction of their own."""
    (database,) = [path.name for path in (corpus.backup / "base").iterdir() if (path / "1259").exists()][:1]
    names = ["PG_VERSION", "global/pg_control", "global/pg_filenode.map", f"base/{database}/pg_filenode.map"]
    names += ["pg_xact/0000", "pg_multixact/offsets/0000", "pg_multixact/members/0000"]
    files = {name: (corpus.backup / name).read_bytes() for name in names}
    files["backup_label"] = _LABEL.encode()
    files["backup_manifest"] = b'{"WAL-Ranges": [{"Timeline": 1, "Start-LSN": "0/2000028", "End-LSN": "0/2000100"}]}'
    files["postgresql.conf"] = _CONF.encode()
    return files


def _prepared_states(corpus: Corpus, scratch: Path) -> dict[str, bytes]:
    """Collect state files, as PREPARE records hold them, by name."""
    states = {}
    for window in closed_windows([corpus], scratch):
        for record in window.records:
            if record[17] == 1 and record[16] & 0x70 == 0x10:
                main = parse_record(record, 0, 0, corpus.major).main_data
                name = f"{struct.unpack_from('<I', main, 8)[0]:08X}"
                states[f"pg_twophase/{name if corpus.major < 17 else '00000000' + name}"] = main
    return states


class DataDirectories(Kind):
    """Small files of a data directory: control file, relation maps, commit log, label, prepared states, settings."""

    name, share = "data directories", 8

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._copies = []
        for corpus in corpora:
            path = scratch / str(corpus.major)
            files = _small_files(corpus) | _prepared_states(corpus, scratch)
            for name, data in files.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                data = data + u32(crc32c(data)) if name.startswith("pg_twophase") else data
                (path / name).write_bytes(data)
                files[name] = data
            self._copies.append((corpus.major, path, files))

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        major, path, files = rng.choice(self._copies)
        name = rng.choice(sorted(files))
        (path / name).write_bytes(_file_changed(rng, name, files[name], major))
        label = path / "backup_label"
        if name != "backup_label" and rng.random() < 0.5:
            label.unlink()
        try:
            return self._read(rng, path, files)
        finally:
            label.write_bytes(files["backup_label"])
            (path / name).write_bytes(files[name])

    def _read(self, rng: random.Random, path: Path, files: dict[str, bytes]) -> str:
        running_server(path)
        directory = DataDirectory(path)
        database = int(next(name for name in files if name.startswith("base/")).split("/")[1])
        steps: list[Callable[[], object]] = [
            directory.relation_map,
            lambda: directory.relation_map(database, 1663),
            directory.commit_log,
            lambda: prepared_transactions(directory),
            directory.manifest_end_lsn,
            lambda: read_server_settings(path),
            lambda: directory.heap((1663, database, 1259)),
            *(lambda xid=xid: directory.is_committed(xid) for xid in (3, 700, 0xFFFFFFFF, rng.getrandbits(32))),
            *(lambda multi=multi: directory.update_xid(multi) for multi in (1, 2, 0xFFFFFFFF, rng.getrandbits(32))),
        ]
        return "read" if sum(map(_tried, steps)) == 0 else "read in part"


def _file_changed(rng: random.Random, name: str, data: bytes, major: int) -> bytes:
    fields: list[Field] = []
    if name == "global/pg_control":
        fields = words_of(data[:300])
    data_changed = changed(rng, data, fields or (words_of(data[:600]) if rng.random() < 0.7 else ()))
    if rng.random() < 0.1:
        return data_changed
    if name == "global/pg_control":
        return _with_crc(data_changed, _CONTROL_CRC_AT[major])
    if name.endswith("pg_filenode.map"):
        return _with_crc(data_changed, len(data) - (8 if len(data) == 512 else 4))
    if name.startswith("pg_twophase"):
        return _with_crc(data_changed, len(data_changed) - 4) if len(data_changed) > 4 else data_changed
    return data_changed


class Catalogs(Kind):
    """Heap files of catalogs: opened, and asked for what decoding asks."""

    name, share = "catalogs", 1.5

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._copies = []
        for corpus in corpora:
            path = scratch / str(corpus.major)
            shutil.copytree(corpus.backup, path, symlinks=True, ignore=shutil.ignore_patterns("pg_wal", "pg_stat"))
            store = open_catalog(corpus.backup, "postgres")
            directory = DataDirectory(path)
            places = [*store.files.locators(), (1664, 0, 2964), (1664, 0, 1260)]
            files = [directory.relation_place(locator) for locator in places]
            self._copies.append(
                (path, corpus.major, store.database_oid, [f for f in sorted(files) if os.path.getsize(f)])
            )

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        path, major, database, files = rng.choice(self._copies)
        file, name = Path(rng.choice(files)), ""
        if rng.random() < 0.3:
            name = rng.choice(("global/pg_control", f"base/{database}/pg_filenode.map", "pg_xact/0000"))
            file = path / name
        whole = file.read_bytes()
        file.write_bytes(_file_changed(rng, name, whole, major) if name else self._changed(rng, whole))
        try:
            for role in (None, "postgres", "somebody"):
                _tried(partial(session_settings_of, path, database, role))
            store = open_catalog(path, "postgres")
            view = store.view(store.start_lsn + 1)
            asked = (1259, 1249, 1247, 2601, 2608, 13000, rng.randrange(12000, 14000))
            refused = sum(_tried(partial(view.relation, oid)) for oid in asked)
            refused += _tried(lambda: image_of(store, 0, store.start_lsn, store.origin.next_xid))
            return "opened" if not refused else "opened, refused"
        finally:
            file.write_bytes(whole)

    def _changed(self, rng: random.Random, whole: bytes) -> bytes:
        page = rng.randrange(len(whole) // 8192) * 8192
        (lower,) = struct.unpack_from("<H", whole, page + 12)
        fields: list[Field] = [(0, 4), (4, 4), (12, 2), (14, 2), (16, 2), (18, 2)]
        for at in range(24, min(lower, 8192), 4):
            start = struct.unpack_from("<I", whole, page + at)[0] & 0x7FFF
            fields += [(at, 4), (start, 4), (start + 4, 4), (start + 18, 2), (start + 20, 2), (start + 22, 1)]
            fields += [(start + 24 + 4 * n, 4) for n in range(rng.choice((2, 30)))]
        data = bytearray(whole)
        part = changed(rng, whole[page : page + 8192], rng.sample(fields, min(len(fields), 40)))
        data[page : page + 8192] = part if rng.random() < 0.1 else part[:8192].ljust(8192, b"\0")
        return bytes(data)


class Values(Kind):
    """Slots and kept states as files, their checksums made right."""

    name, share = "states", 4

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._path = scratch / "file"
        request = SlotRequest(("a", "b"), "c", "postgres", "pgoutput", (("proto_version", "1"), ("binary", None)))
        self._values: list[tuple[type, bytes]] = [
            (Slot, self._saved(Slot(request, 5, None, statistics=SlotStatistics(1))))
        ]
        for corpus in corpora:
            state = corpus.kept[rng_free(len(corpus.kept))].state
            for value in (state.control, state.outputs[0].memory, state.left, state.catalog.origin):
                self._values.append((type(value), self._saved(value)))
        self._whole = [(KeptState, self._saved(corpora[0].kept[0]))]

    def _saved(self, value: object) -> bytes:
        save_value(self._path, value)
        return self._path.read_bytes()

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        kind, data = rng.choice(self._whole if rng.random() < 0.02 else self._values)
        head, body = data[:64], data[64:]
        starts = rng.choice((40, 200, 2000, len(body)))
        body = changed(rng, body[:starts], words_of(body[:64])) + body[starts:]
        if rng.random() < 0.9:
            head = head[:12] + struct.pack("<IQ", zlib.crc32(body), len(body)) + head[24:]
        else:
            head = changed(rng, head)
        self._path.write_bytes(head + body)
        if kind is KeptState:
            state_in_file(str(self._path))
        value: object = load_value(self._path, kind)
        value_bytes(value)
        return "loaded"


def rng_free(count: int) -> int:
    """Return a place in the middle."""
    return count // 2


class UsedStates(Kind):
    """States whose numbers are wrong though their checksum is right: a window is planned from them."""

    name, share = "used states", 1

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._path = scratch / "file"
        self._windows = closed_windows(corpora, scratch)
        self._saved: dict[int, bytes] = {}

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        number = rng.randrange(len(self._windows))
        window = self._windows[number]
        if number not in self._saved:
            save_value(self._path, window.kept)
            self._saved[number] = self._path.read_bytes()
        head, body = self._saved[number][:64], self._saved[number][64:]
        at = rng.randrange(len(body))
        part = changed(rng, body[at : at + 400])
        body = body[:at] + part[:400].ljust(min(400, len(body) - at), b"\0") + body[at + 400 :]
        head = head[:12] + struct.pack("<IQ", zlib.crc32(body), len(body)) + head[24:]
        self._path.write_bytes(head + body)
        kept_state = load_value(self._path, KeptState)
        changed_window = Window(window.corpus, kept_state, self._path.parent)
        opened = changed_window.opened(rng.randrange(len(PLUGINS)), window.corpus.directory)
        plan(opened)
        return "planned"


class Packed(Kind):
    """Segments packed in every way, cut off or with bytes changed."""

    name, share = "packed segments", 3

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._scratch = scratch
        segment = corpora[0].wal / sorted(path.name for path in corpora[0].wal.iterdir() if len(path.name) == 24)[2]
        self._name, data = segment.name, segment.read_bytes()
        self._packed = {".gz": gzip.compress(data, 1)}
        codecs: dict[str, Codec] = {".lz4": "lz4", ".zst": "zstd", ".bz2": "bz2"}
        for ending, codec in codecs.items():
            sink = io.BytesIO()
            with pa.output_stream(sink, compression=codec) as stream:
                stream.write(data)
                stream.flush()
            self._packed[ending] = b""
            path = scratch / f"made{ending}"
            with pa.output_stream(str(path), compression=codec) as stream:
                stream.write(data)
            self._packed[ending] = path.read_bytes()
        import lzma

        self._packed[".xz"] = lzma.compress(data, preset=0)
        self._number = 0

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        ending = rng.choice(sorted(self._packed))
        data = self._packed[ending]
        near = rng.choice((16, 64, 1024, len(data)))
        if rng.random() < 0.5:
            data = changed(rng, data[:near]) + data[near:]
        else:
            data = data[:-near] + changed(rng, data[-near:])
        # A name of its own, as what was unpacked is kept by name.
        self._number += 1
        place = self._scratch / f"wal{self._number}"
        place.mkdir()
        file = place / f"{self._name}{rng.choice((ending, ending, '', ending + '.partial'))}"
        file.write_bytes(data)
        try:
            directory = WalDirectory.scan(place)
            frames = read_frames(directory, directory.start_lsn, directory.start_lsn + SEGMENT)
            return "read" if frames.end is None else "end of the log"
        finally:
            shutil.rmtree(place)


_NUMBERS = (
    "0000000000000FFF",
    "0000000000001000",
    "00000000FFFFFFFF",
    "FFFFFFFF00000000",
    "FFFFFFFFFFFFFFFF",
    "0" * 16,
)
"""Of segments, in their names: some of no segment of 1 MB, some at the end of all LSNs."""


class Timelines(Kind):
    """History files, names of segments, and the first pages, which name their server and size."""

    name, share = "timelines", 3

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._scratch = scratch
        self._corpus = corpora[0]
        self._names = sorted(path.name for path in self._corpus.wal.iterdir() if len(path.name) == 24)
        self._first = {name: (self._corpus.wal / name).read_bytes()[:8192] for name in self._names[:3]}
        self._number = 0

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        self._number += 1
        place = self._scratch / f"wal{self._number}"
        place.mkdir()
        try:
            self._make(rng, place)
            directory = WalDirectory.scan(place, timeline=rng.choice((None, None, 1, 2, 3, 0xFFFFFFFF)))
            for abandoned in directory.abandoned:
                str(abandoned)
            read_frames(directory, directory.start_lsn, directory.start_lsn + 8192)
            return "read"
        finally:
            shutil.rmtree(place)

    def _make(self, rng: random.Random, place: Path) -> None:
        for name, page in self._first.items():
            if rng.random() < 0.3:
                page = changed(rng, page[:48], words_of(page[:40])) + page[48:]
            timeline = rng.choice(("00000001", "00000001", "00000002", "00000003", "FFFFFFFF", "00000000"))
            number = name[8:] if rng.random() < 0.9 else rng.choice(_NUMBERS)
            path = place / (timeline + number)
            with path.open("wb") as file:
                file.write(page)
                file.truncate(SEGMENT if rng.random() < 0.95 else rng.choice((0, 100, 8192, SEGMENT + 1)))
        lines = [
            b"1\t0/6000100\tno recovery target specified\n",
            b"2\t0/A000100\tbefore 2000-01-01\n",
            b"# comment\n",
            b"\n",
        ]
        for other in rng.sample((1, 2, 3, 0xFFFFFFFF), rng.randrange(4)):
            text = b"".join(rng.choice(lines) for _ in range(rng.randrange(4)))
            (place / f"{other:08X}.history").write_bytes(changed(rng, text) if rng.random() < 0.8 else text)


def _archive(files: dict[str, bytes], tar_format: int) -> bytes:
    """Make an archive; a member has a name that is longer than a header can hold, and own headers if possible."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tar_format) as tar:
        for name, data in (
            {} if tar_format == tarfile.USTAR_FORMAT else {"pg_stat/" + "x" * 150: b"x"} | files
        ).items():
            member = tarfile.TarInfo(name)
            member.size = len(data[:9000])
            member.pax_headers = {"mtime": "1234567890.5", "comment": "here"}
            tar.addfile(member, io.BytesIO(data[:9000]))
    return buffer.getvalue()


def _strange_member(rng: random.Random, header: bytes) -> bytes:
    """Change a header to one of another kind of member, or with a binary size that is too large for any file."""
    if rng.random() < 0.5:
        return header[:156] + rng.choice((b"0", b"L", b"K", b"x", b"g", b"S", b"X", b"1", b"5", b"7")) + header[157:]
    size = rng.choice((1 << 33, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 70, 100_000))
    return header[:124] + b"\x80" + size.to_bytes(11, "big") + header[136:]


class Archives(Kind):
    """Backups in tar format, as they are and compressed."""

    name, share = "tar backups", 3

    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        self._scratch, self._number = scratch, 0
        self._archives: list[tuple[str, bytes]] = []
        files = _small_files(corpora[0])
        for tar_format in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            plain = _archive(files, tar_format)
            codecs: dict[str, Codec | None] = {"": None, ".gz": "gzip", ".lz4": "lz4", ".zst": "zstd"}
            for suffix, codec in codecs.items():
                path = scratch / "made"
                if codec is None:
                    path.write_bytes(plain)
                else:
                    with pa.output_stream(str(path), compression=codec) as sink:
                        sink.write(plain)
                self._archives.append((suffix, path.read_bytes()))
        self._files = sorted(files)

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        suffix, data = rng.choice([*self._archives[::4], *self._archives])
        at = rng.choice((0, 0, rng.randrange(min(len(data), 4096)) // 512 * 512, rng.randrange(len(data)) // 512 * 512))
        part = changed(rng, data[at : at + 512], [(100, 8), (124, 8), (132, 4), (148, 8), (156, 1), (257, 8)])
        if rng.random() < 0.3 and len(part) >= 512:
            part = _strange_member(rng, part)
        if not suffix and rng.random() < 0.8 and len(part) >= 512:
            total = sum(part[:148]) + 8 * 32 + sum(part[156:512])
            part = part[:148] + f"{total:06o}\0 ".encode() + part[156:]
        self._number += 1
        place = self._scratch / f"backup{self._number}"
        place.mkdir()
        (place / f"base.tar{suffix}").write_bytes(data[:at] + part + data[at + 512 :])
        try:
            tree = open_tree(place)
            refused = sum(_tried(partial(tree.read, name)) for name in self._files)
            tree.names("pg_xact")
            refused += _tried(lambda: DataDirectory(place).commit_log())
            return "read" if not refused else "read in part"
        finally:
            shutil.rmtree(place)


KINDS: list[type[Kind]] = [DataDirectories, Catalogs, Values, UsedStates, Packed, Timelines, Archives]
