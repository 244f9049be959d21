"""The rooms stand in the order of the data flow: each imports only rooms before it."""

from __future__ import annotations

import ast
from pathlib import Path

import headwater

PACKAGE = Path(headwater.__file__).parent
ROOMS = ["pg", "wal", "rmgr", "catalog", "reorder", "rows", "definitions", "plugins", "slots"]
ROOMS += ["jobs", "pipeline", "lakes", "sinks", "walsender", "apply", "demo", "cli"]
FOUNDATIONS = (
    "errors",
    "option_names",
    "trusted_paths",
    "caches",
    "temporary_directories",
    "kernels",
    "flat_values",
    "kernel_cache",
    "constant_columns",
    "kept_memory",
)
BELOW_ALL = {*FOUNDATIONS, "__version__"}


def imports(path: Path) -> set[str]:
    """The names right below ``headwater`` that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module] if node.module != "headwater" else [f"headwater.{a.name}" for a in node.names]
            assert node.level == 0, f"{path} imports relatively"
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        found |= {m.split(".")[1] for m in modules if m.startswith("headwater.")}
    return found


def test_every_folder_is_a_room() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and not p.name.startswith("__")}
    assert set(ROOMS) == folders


def test_rooms_import_only_upwards() -> None:
    wrong = []
    for number, room in enumerate(ROOMS):
        allowed = {*ROOMS[: number + 1], *BELOW_ALL}
        for path in (PACKAGE / room).rglob("*.py"):
            wrong += [f"{path.relative_to(PACKAGE)} imports {name}" for name in imports(path) - allowed]
    assert wrong == []


def test_foundations_import_no_room() -> None:
    for name in FOUNDATIONS:
        assert imports(PACKAGE / f"{name}.py") <= BELOW_ALL


def test_kernels_live_in_kernel_files() -> None:
    """Whoever looks for machine code looks into files named ``_*.py``; so does ``kernel_loading.py``."""
    strays = []
    for path in PACKAGE.rglob("*.py"):
        if path.name.startswith("_") or path.name == "kernels.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any("kernel" in ast.dump(d) for d in node.decorator_list):
                strays.append(f"{path.relative_to(PACKAGE)}: {node.name}")
    assert strays == []


def test_only_kernels_import_kernels_of_other_rooms() -> None:
    """What a room needs of another's kernel is public beside it, under a name."""
    strays = []
    for path in PACKAGE.rglob("[!_]*.py"):
        room = path.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                strays += [f"{path.relative_to(PACKAGE)}: {name}" for name in names if _is_foreign_kernel(name, room)]
    assert strays == []


def _is_foreign_kernel(module: str, room: str) -> bool:
    head, *rest = module.split(".")
    is_kernel = head == "headwater" and len(rest) == 2 and rest[1].startswith("_")
    return is_kernel and rest[0] != room and (PACKAGE / rest[0] / f"{rest[1]}.py").exists()


def test_only_the_versions_compare_majors() -> None:
    """What depends on the major version is a named trait of ``headwater.pg.version.Version``."""
    strays = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and path != PACKAGE / "pg" / "version.py":
                sides = [node.left, *node.comparators]
                numbers = {s.value for s in sides if isinstance(s, ast.Constant) and isinstance(s.value, int)}
                if numbers & {14, 15, 16, 17, 18, 19, 20} and any("major" in ast.dump(side) for side in sides):
                    strays.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert strays == []
