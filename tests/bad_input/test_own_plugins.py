"""Output plugins of one's own: the tutorial's, and what goes wrong with others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bad_input.clusters import Cluster
from bad_input.command import CommandHere, run_command

pytestmark = [pytest.mark.server]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "own-plugin.md"

WHOLE = """
from headwater import OutputPlugin

class Mine(OutputPlugin):
    def begin(self, ctx, txn):
        pass
    def change(self, ctx, txn, relation, change):
        ctx.write(change.action)
    def commit(self, ctx, txn, commit_lsn):
        pass
"""


def words(cluster: Cluster, plugin: str, *more: str) -> list[str]:
    window = ["--wal", str(cluster.wal), "--catalog", str(cluster.backup), "--database", "postgres"]
    return [*window, "--plugin", plugin, *more]


def written(tmp_path: Path, text: str, name: str = "mine.py") -> str:
    path = tmp_path / name
    path.write_text(text)
    path.chmod(0o644)
    return str(path)


def test_the_tutorial(headwater: CommandHere, cluster: Cluster, whole: bytes, tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert code is not None
    assert len(code[1].splitlines()) <= 30
    path = written(tmp_path, code[1], "audit.py")
    lines = headwater(*words(cluster, f"{path}:Audit")).check_passed().splitlines()
    changes = [line for line in whole.splitlines() if re.match(rb"table [^:]*: (INSERT|UPDATE|DELETE):", line)]
    rows = [line for line in lines if b" done, " not in line]
    assert len(rows) == len(changes) > 0
    counts = [int(match[1]) for line in lines if (match := re.search(rb"done, (\d+) rows$", line))]
    assert sum(counts) == len(changes)
    assert all(re.match(rb"\d\d:\d\d:\d\d \d+ (insert|update|delete) \S+\.\S+ ", line) for line in rows)
    nothing = headwater(*words(cluster, f"{path}:Audit", "-o", "tables=no.such")).check_passed()
    assert nothing == b""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WHOLE.replace("def change", "def other"), "output plugins have to register a change callback"),
        (WHOLE + "    output_type = 'json'\n", 'output_type of "Mine" is "json", expected text or binary'),
        (WHOLE.replace("class Mine(OutputPlugin)", "class Mine"), " is not an output plugin"),
        (WHOLE.replace("Mine", "Other"), " is not an output plugin"),
        ("raise ValueError('no')", "fails: ValueError: no"),
        ("def (", "fails: SyntaxError"),
        (
            WHOLE + "    def startup(self, ctx, is_init):\n        ctx.write('x')\n",
            'callbacks: output plugin "Mine", in the startup callback',
        ),
        (
            WHOLE + "    def startup(self, ctx, is_init):\n        raise KeyError('colour')\n",
            "KeyError: 'colour': output plugin",
        ),
    ],
    ids=["no change", "output type", "no plugin", "no class", "raises", "no Python", "writes early", "refuses"],
)
def test_what_is_no_plugin(headwater: CommandHere, cluster: Cluster, tmp_path: Path, text: str, expected: str) -> None:
    run = headwater(*words(cluster, f"{written(tmp_path, text)}:Mine"))
    assert (run.status, run.stdout, run.left) == (1, b"", ())
    assert expected in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_a_callback_that_fails(headwater: CommandHere, cluster: Cluster, tmp_path: Path) -> None:
    """Its error names plugin, callback and LSN, and nothing of the output is left behind."""
    text = WHOLE.replace("ctx.write(change.action)", "raise RuntimeError('stop here')")
    run = headwater(*words(cluster, f"{written(tmp_path, text)}:Mine", "--out", str(tmp_path / "out" / "lines")))
    assert (run.status, run.stdout) == (1, b"")
    assert re.search(
        r"RuntimeError: stop here: output plugin \"Mine\", in the change callback \(at [0-9A-F]+/[0-9A-F]+\)",
        run.stderr,
    )
    assert not (tmp_path / "out" / "lines").exists()


@pytest.mark.parametrize("runs_on", ["local", "spark"])
def test_what_a_plugin_prints_is_no_output(cluster: Cluster, tmp_path: Path, runs_on: str) -> None:
    """It goes to standard error; on standard output are the messages alone."""
    text = "print('loaded')" + WHOLE.replace("pass", "print('prints', 'here')", 1)
    run = run_command("decode", *words(cluster, f"{written(tmp_path, text)}:Mine"), "--engine", runs_on)
    assert (run.status, set(run.stdout.split()) - {b"insert", b"update", b"delete"}) == (0, set())
    assert "loaded" in run.stderr
    assert "prints here" in run.stderr


def test_a_file_that_others_can_write_is_not_run(headwater: CommandHere, cluster: Cluster, tmp_path: Path) -> None:
    path = Path(written(tmp_path, WHOLE))
    path.chmod(0o666)
    run = headwater(*words(cluster, f"{path}:Mine"))
    assert run.status == 1
    assert "can be written to by others" in run.stderr


def test_a_file_that_is_not_there(headwater: CommandHere, cluster: Cluster, tmp_path: Path) -> None:
    run = headwater(*words(cluster, f"{tmp_path / 'none.py'}:Mine"))
    assert run.status == 1
    assert "could not read output plugin" in run.stderr
    assert "No such file or directory" in run.stderr


ENDS = {
    "exit": ("raise SystemExit('told to end')", "step decode failed: SystemExit: told to end (in headwater/"),
    "killed": (
        "import os; os.kill(os.getpid(), 9)",
        "a Python process of step decode crashed, or was killed; where memory ran out, as the system's log tells then, "
        "give it more, or make windows smaller with --window-bytes, or let fewer tasks run at a time "
        "(--master local[1])",
    ),
}


@pytest.mark.parametrize(("kind", "runs_on"), [("exit", "local"), ("exit", "spark"), ("killed", "spark")])
def test_a_plugin_that_ends_its_process(cluster: Cluster, tmp_path: Path, kind: str, runs_on: str) -> None:
    """One line with the cause and the step, and no stack, of Java's or of Python's."""
    does, expected = ENDS[kind]
    text = WHOLE.replace("ctx.write(change.action)", does)
    run = run_command("decode", *words(cluster, f"{written(tmp_path, text)}:Mine"), "--engine", runs_on)
    run.check_failed(expected, begun=None)


def test_the_traceback_where_it_is_asked_for(cluster: Cluster, tmp_path: Path) -> None:
    """The traceback is the task's, then comes the line."""
    text = WHOLE.replace("ctx.write(change.action)", ENDS["exit"][0])
    asked = {"HEADWATER_TRACEBACK": "1"}
    run = run_command("decode", *words(cluster, f"{written(tmp_path, text)}:Mine"), environment=asked)
    assert (run.status, run.stdout) == (1, b"")
    assert "SystemExit: told to end" in run.stderr.partition("TaskTraceback")[0] + run.stderr
    assert 'mine.py", line' in run.stderr
    assert run.stderr.splitlines()[-1].startswith("headwater: step decode failed: SystemExit")
