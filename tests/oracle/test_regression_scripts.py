"""PostgreSQL's own scripts of test_decoding, run on real servers: we say of their WAL what the servers' plugins say."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from arrow_types import values_of
from headwater.demo.stream_comparison import Difference
from headwater.jobs.engine import Engine
from oracle.decoded_run import kept_on_failure
from oracle.isolation_spec import IsolationSpec, Step
from oracle.regression_scripts import PUBLISHED, SCRIPT, SCRIPTS_OF, asked, run_scripts, scripts_of
from oracle.streamed_runs import Run, decoded, difference

RUNS = [(major, published) for major in SCRIPTS_OF for published in PUBLISHED]
NEWEST = max(SCRIPTS_OF)
FEWEST_MESSAGES = 10_000

pytestmark = [pytest.mark.server]


@pytest.fixture(scope="module", params=RUNS, ids=[f"pg{major}-{published}" for major, published in RUNS])
def scripts_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    major, published = request.param
    scripts = scripts_of(major)
    if scripts is None:
        pytest.skip("PostgreSQL's scripts are not there: make contrib")
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield run_scripts(major, scripts, published, directory)


@pytest.mark.slow
@pytest.mark.parametrize("name", asked(NEWEST))
def test_walsenders(engine: Engine, scripts_run: Run, name: str) -> None:
    run = scripts_run
    if name not in run.plugins:
        pytest.skip("not asked for where everything is published, or a later option")
    actual = decoded(engine, run, name)
    assert len(actual) > FEWEST_MESSAGES
    mismatch = difference(run, name, actual)
    if mismatch is not None:
        counts = f"{len(run.sent[name])} messages expected, {len(actual)} found"
        pytest.fail(
            f"{name} on {run.major}, in {_script(actual, mismatch)}: {counts}\n{mismatch}\n{run.wal}", pytrace=False
        )


def _script(messages: pa.Table, mismatch: Difference) -> str:
    """Return the script in which two streams part."""
    data = messages.slice(0, mismatch.position).column("data")
    marks = values_of(pc.indices_nonzero(pc.match_substring(data, SCRIPT)))
    return repr(data[marks[-1]].as_py()) if marks else "no script"


def test_form_of_specs() -> None:
    spec = IsolationSpec.parse(
        """
        # a comment with "quotes" and { a brace
        setup { CREATE TABLE t (a int); } setup { VACUUM t }
        teardown { DROP TABLE t; }
        session "s 1" setup { BEGIN; }
        step "w""1" { INSERT INTO t VALUES (1); } step c { COMMIT; }
        session s2 step "session" { SELECT 1; } teardown { RESET ALL; }
        permutation "w""1" "session"(*) c("session", "w""1" notices 2)
        permutation c
        """
    )
    assert spec.setup == [" CREATE TABLE t (a int); ", " VACUUM t "]
    assert (spec.teardown, list(spec.sessions)) == ([" DROP TABLE t; "], ["s 1", "s2"])
    assert (spec.sessions["s 1"].setup, spec.sessions["s2"].teardown) == ([" BEGIN; "], [" RESET ALL; "])
    assert spec.steps['w"1'] == ("s 1", " INSERT INTO t VALUES (1); ")
    first = [Step('w"1'), Step("session"), Step("c", ("session", 'w"1', "notices"))]
    assert spec.permutations == [first, [Step("c")]]
    with pytest.raises(ValueError, match="expected a name, found the end"):
        IsolationSpec.parse("session")
    with pytest.raises(ValueError, match="without permutations"):
        IsolationSpec.parse("setup { }")
