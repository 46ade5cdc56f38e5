"""The project's own files, for the tests that read its code."""

import ast
import functools
import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def files() -> tuple[Path, ...]:
    """Every file that belongs to the project: tracked, or new and not ignored."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    # The clone may belong to another user than the one who tests.
    command[1:1] = ["-c", f"safe.directory={ROOT}"]
    listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(path for path in paths if path.is_file())


def modules(folder: str) -> Iterator[tuple[str, ast.Module]]:
    """The Python files below `folder`, as path from the root and syntax tree."""
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py" and name.startswith(f"{folder}/"):
            yield name, ast.parse(path.read_text(encoding="utf-8"), filename=name)


def copy_package(to: Path) -> Path:
    """A copy of the package and its import contracts, to break on purpose; returns the package."""
    shutil.copytree(ROOT / "openab", to / "openab", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", to)
    return to / "openab"


def docs_generator() -> ModuleType:
    """docs/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
