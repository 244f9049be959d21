"""A kernel whose name begins with an underscore has no way in from Python: kernels alone name it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import headwater

PACKAGE = Path(headwater.__file__).parent
DECLARATIONS = {"kernel", "borrowing_kernel", "inline_kernel"}


def is_kernel(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(decorator, ast.Name) and decorator.id in DECLARATIONS for decorator in node.decorator_list
    )


def private_kernels(module: ast.Module) -> set[str]:
    return {
        node.name
        for node in module.body
        if isinstance(node, ast.FunctionDef) and is_kernel(node) and node.name.startswith("_")
    }


def named_outside_of_kernels(node: ast.AST) -> Iterator[str]:
    """Give the names that code other than kernels mentions."""
    for child in ast.iter_child_nodes(node):
        if is_kernel(child):
            continue
        if isinstance(child, ast.Name):
            yield child.id
        elif isinstance(child, ast.Attribute):
            yield child.attr
        yield from named_outside_of_kernels(child)


def imported(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Give the modules and names that a module imports from them."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


def test_only_kernels_call_them() -> None:
    parsed = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    private = {path: private_kernels(module) for path, module in parsed.items()}
    assert sum(map(len, private.values())) > 300
    called = [
        (path.name, name) for path in parsed for name in named_outside_of_kernels(parsed[path]) if name in private[path]
    ]
    assert not called
    by_module = {
        ".".join(("headwater", *path.relative_to(PACKAGE).with_suffix("").parts)): names
        for path, names in private.items()
    }
    taken = [
        (path.name, name)
        for path, module in parsed.items()
        if not path.name.startswith("_") or path.name == "__init__.py"
        for source, name in imported(module)
        if name in by_module.get(source, ())
    ]
    assert not taken
