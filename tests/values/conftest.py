"""One running server per major version for this rung."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import programs_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        majors = getattr(metafunc.module, "MAJORS", (15, 16, 18))
        if metafunc.config.getoption("--all-majors"):
            majors = getattr(metafunc.module, "ALL_MAJORS", (14, 15, 16, 17, 18, 19))
        metafunc.parametrize("server", majors, indirect=True, ids=[f"pg{major}" for major in majors], scope="session")


SOURCES = Path("/usr/share/i18n/locales")
# By name: a locale whose conventions are taken, and the encoding. They differ in signs, separators and decimals.
LOCALES = {
    "en_US.UTF-8": ("en_US", "UTF-8"),
    "de_DE.UTF-8": ("de_DE", "UTF-8"),
    "de_DE.ISO-8859-15": ("de_DE@euro", "ISO-8859-15"),
    "fr_FR.UTF-8": ("fr_FR", "UTF-8"),
    "ja_JP.UTF-8": ("ja_JP", "UTF-8"),
    "en_IN.UTF-8": ("en_IN", "UTF-8"),
}
# Where signs stand: sign_posn, cs_precedes and sep_by_space, for amounts above zero; those below have the next one.
PLACES = list(itertools.product(range(5), range(2), range(3)))
FIELDS = """
int_curr_symbol "XTS "
currency_symbol "<U20AC><U00A4>"
mon_decimal_point "<U066B>"
mon_thousands_sep "<U202F>"
mon_grouping 4;2
positive_sign "+p"
negative_sign "-n"
int_frac_digits 3
frac_digits 3
"""


def locale_source(places: Sequence[tuple[int, int, int]]) -> str:
    """Write the conventions of a locale that there is nowhere, for ``localedef``."""
    names = [f"{sign}_{part}" for sign in "pn" for part in ("sign_posn", "cs_precedes", "sep_by_space")]
    values = [value for place in places for value in place]
    return FIELDS + "\n".join(f"{name} {value}" for name, value in zip(names, values, strict=True))


def conventions_of(source: str) -> str:
    """Return the lines of a locale for ``LC_MONETARY``.

    To ``copy "ja_JP"`` alone, ``localedef`` of glibc 2.36 crashes.
    """
    text = (SOURCES / source).read_text(encoding="utf-8")
    lines = text.partition("\nLC_MONETARY\n")[2].partition("\nEND LC_MONETARY")[0]
    assert lines, f"locale {source} has no LC_MONETARY"
    return lines


@pytest.fixture(scope="session")
def locales(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Make locales for the servers and for us; their names."""
    sources = {name: (conventions_of(source), codeset) for name, (source, codeset) in LOCALES.items()}
    pairs = list(zip(PLACES[::2], PLACES[1::2], strict=True))
    for pair in pairs if request.config.getoption("--all-majors") else pairs[::4]:
        name = "-".join(str(value) for place in pair for value in place)
        sources[f"xx_{name}.UTF-8"] = locale_source(pair), "UTF-8"
    with tempfile.TemporaryDirectory(prefix="headwater-locales-") as name, pytest.MonkeyPatch.context() as patch:
        directory = Path(name)
        directory.chmod(0o755)  # the servers run as another user
        patch.setenv("LOCPATH", name)
        for name, (source, codeset) in sources.items():
            make_locale(directory / name, source, codeset)
        yield list(sources)


def make_locale(path: Path, source: str, codeset: str) -> None:
    """Make a locale of these conventions."""
    file = path.with_suffix(".source")
    categories = dict.fromkeys(("CTYPE", "COLLATE", "NUMERIC", "TIME", "MESSAGES"), 'copy "POSIX"')
    text = [f"LC_{name}\n{body}\nEND LC_{name}\n" for name, body in (categories | {"MONETARY": source}).items()]
    file.write_text("".join(text))
    command = ["localedef", "-c", "-i", str(file), "-f", codeset, str(path)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)  # it warns of what is left out
    assert (path / "LC_MONETARY").is_file(), f"no locale {path.name} (run: make locales): {made.stderr}"


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, locales: list[str]) -> Iterator[EmbeddedPostgres]:  # noqa: ARG001
    with EmbeddedPostgres(programs_of(request.param), autovacuum=False) as running:
        yield running
