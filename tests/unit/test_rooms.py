"""The rooms stand in the order of the data flow: each imports only rooms before it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import headwater

PACKAGE = Path(headwater.__file__).parent

# Each imports only itself and those before it. "" is the package itself: errors, names of options, the version.
ROOMS = ["", "base", "pg", "wal", "wal/segments", "wal/records", "rmgr", "rmgr/index"]
ROOMS += ["catalog", "catalog/copy", "catalog/store"]
ROOMS += ["reorder", "reorder/commits", "reorder/slices", "reorder/announcing"]
ROOMS += ["rows", "rows/text", "rows/send", "rows/tuples", "rows/collect", "rows/columns"]
ROOMS += ["definitions", "filters", "plugins", "plugins/callbacks", "plugins/test_decoding", "plugins/pgoutput"]
ROOMS += ["plugins/wal2json", "plugins/debezium", "plugins/rows", "slots", "jobs", "spark", "protocol", "receiver"]
ROOMS += [
    "pipeline/requests",
    "pipeline/windows",
    "pipeline/slices",
    "pipeline",
    "existing",
    "remote_slots",
    "source",
    "lakes/stores",
    "lakes/iceberg",
    "lakes/deletes",
    "lakes/layout",
    "lakes/settings",
    "lakes/catalogs",
    "lakes/ducklake",
    "lakes",
]
ROOMS += ["landing/settings", "landing/tables", "landing/key_index", "landing/mirrors", "landing"]
ROOMS += ["walsender/sql", "walsender/copying", "walsender/access"]
ROOMS += ["walsender/folds", "walsender/operating", "walsender/queries", "walsender/functions", "walsender/sessions"]
ROOMS += ["local_servers", "demo", "walsender/catalog_server", "walsender/backups"]
ROOMS += ["walsender", "walsender/catalog_layer"]
ROOMS += [
    "apply/incoming",
    "apply/target",
    "apply/progress",
    "apply/conflicts",
    "apply/refused",
    "apply/serial",
    "apply/batches",
]
ROOMS += ["apply/streamed", "apply/parallel", "apply/mapped", "apply/table_sync", "apply", "apply/launcher"]
ROOMS += ["cli/process", "cli/output", "cli/settings", "cli"]

OF_SPARK = ("pyspark", "py4j", "pandas")
WITHOUT_SPARK = [room for room in ROOMS[: ROOMS.index("pipeline")] if room != "spark"]
WITHOUT_SPARK += ["existing", "remote_slots"]
"""Rooms that are imported without loading Spark."""

ENGINES = {"jobs", "spark"}

MOST_FILES = 25
MANY = {"rmgr": 40, "filters": 30}
"""Rooms with more files than that: one a resource manager, one a family of types."""


def module_names() -> dict[str, Path]:
    """List all modules of the package and their files; a folder is the module of its ``__init__.py``."""
    names = {}
    for path in PACKAGE.rglob("*.py"):
        parts = (PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


MODULES = module_names()


@cache
def tree_of(path: Path) -> ast.Module:
    """Parse a file of the package."""
    return ast.parse(path.read_text())


def imports(path: Path) -> set[str]:
    """Find the modules of the package that a file imports, wherever in it."""
    modules: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules |= {name if name in MODULES else node.module for name in names}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules & MODULES.keys()


@cache
def imports_by_module() -> dict[str, set[str]]:
    """Map each module to those it imports; what the package itself imports, it does when it is asked for the name."""
    return {name: imports(path) if name != PACKAGE.name else set() for name, path in MODULES.items()}


def room_of(module: str) -> str:
    """Return the folder that a module lies in."""
    return MODULES[module].parent.relative_to(PACKAGE).as_posix().removeprefix(".")


def test_every_folder_is_a_room() -> None:
    assert {room_of(module) for module in MODULES} == set(ROOMS)


def test_rooms_import_only_upwards() -> None:
    wrong = []
    for module, others in imports_by_module().items():
        number = ROOMS.index(room_of(module))
        wrong += [f"{module} imports {other}" for other in others if ROOMS.index(room_of(other)) > number]
    assert wrong == []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Modules are taken away that import none that is left; what remains goes round in a circle."""
    left = dict(imports_by_module())
    while free := [module for module, others in left.items() if not others & left.keys() - {module}]:
        for module in free:
            del left[module]
    assert left == {}


IMPORT_ALL = """
import importlib, json, sys
for module in json.load(sys.stdin):
    importlib.import_module(module)
print(*(name for name in sys.argv[1:] if name in sys.modules))
"""
"""Whatever one room loaded would still be there behind the last one."""


def test_rooms_are_imported_without_spark() -> None:
    modules = [module for room in WITHOUT_SPARK for module in sorted(MODULES) if room_of(module) == room]
    command = [sys.executable, "-c", IMPORT_ALL, *OF_SPARK]
    run = subprocess.run(command, input=json.dumps(modules), stdout=subprocess.PIPE, text=True, check=True)
    assert run.stdout.split() == []


def test_jobs_and_spark_know_nothing_of_postgresql() -> None:
    known = {"", "base", "jobs", "spark"}
    strays = {
        (module, other)
        for module, others in imports_by_module().items()
        if room_of(module) in ("jobs", "spark")
        for other in others
    }
    assert [pair for pair in sorted(strays) if room_of(pair[1]) not in known] == []


def test_rooms_are_small() -> None:
    files = Counter(room_of(module) for module in MODULES)
    assert {room: count for room, count in files.items() if count > MANY.get(room, MOST_FILES)} == {}


def test_kernels_live_in_kernel_files() -> None:
    """Machine code is looked for in files named ``_*.py``; ``kernel_loading.py`` does so, too."""
    strays = []
    for path in PACKAGE.rglob("*.py"):
        if path.name.startswith("_") or path.name == "kernels.py":
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and any("kernel" in ast.dump(d) for d in node.decorator_list):
                strays.append(f"{path.relative_to(PACKAGE)}: {node.name}")
    assert strays == []


WITH_KERNELS_OF_ROWS = {"rows", "filters", "existing"}
"""Rooms that take apart and print values by the same kernels."""


def test_only_kernels_import_kernels_of_other_rooms() -> None:
    """A kernel that another room needs is public beside it, under a name; rooms of one folder are one here."""
    strays = []
    for module, others in imports_by_module().items():
        kernels = {other for other in others if is_kernel_file(other) and floor_of(other) != floor_of(module)}
        strays += [f"{module}: {kernel}" for kernel in kernels if not is_kernel_file(module)]
    assert strays == []


def floor_of(module: str) -> str:
    """Return the topmost folder that a module lies in."""
    folder = module.partition(".")[2].partition(".")[0]
    return "rows" if folder in WITH_KERNELS_OF_ROWS else folder


def is_kernel_file(module: str) -> bool:
    """Tell whether a module has kernels, by its name."""
    return module.rpartition(".")[2].startswith("_")


def test_only_the_versions_compare_majors() -> None:
    """Differences of major versions are named traits of ``headwater.pg.version.Version``."""
    strays = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Compare) and path != PACKAGE / "pg" / "version.py":
                sides = [node.left, *node.comparators]
                numbers = {s.value for s in sides if isinstance(s, ast.Constant) and isinstance(s.value, int)}
                if numbers & {14, 15, 16, 17, 18, 19, 20} and any("major" in ast.dump(side) for side in sides):
                    strays.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert strays == []
