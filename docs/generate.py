"""Writes the pages of docs/ that are made from the code; `--check` only says which are stale."""

import ast
import importlib
import pkgutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from openab.config import document as config_document

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Made by ./dev docs from {source}; change that instead. -->"


def first_paragraph(docstring: str | None) -> str:
    """The sentence that says what a module is, on one line."""
    paragraph = (docstring or "").strip().partition("\n\n")[0]
    return " ".join(paragraph.split())


def module_map() -> str:
    """docs/module-map.md: every module with its sentence, in the order of the import layers."""
    lines = [
        "# Module map",
        "",
        NOTE.format(source="the first sentence of each module"),
        "",
        "From the top of the imports to the bottom: a module imports from packages below its own, and never from one",
        "beside or above it.",
    ]
    for package in _packages_in_layer_order():
        folder = ROOT / "openab" / package
        entries = [f"- `{_dotted(path)}`: {_sentence(path)}" for path in _modules(folder)]
        lines += ["", f"## {package}", "", _sentence(folder / "__init__.py")]
        lines += ["", *entries] if entries else []
    return "\n".join(lines) + "\n"


def lifecycles() -> str:
    """docs/lifecycles.md: a diagram of every state machine of the domain."""
    lines = [
        "# Lifecycles",
        "",
        NOTE.format(source="the tables in openab/domain"),
        "",
        "Each machine is one table in the domain; an arrow is an event. No other code changes a state.",
    ]
    for title, sentence, diagram in _machines():
        lines += ["", f"## {title}", "", sentence, "", "```mermaid", diagram, "```"]
    return "\n".join(lines) + "\n"


PAGES = {
    "docs/module-map.md": module_map,
    "docs/lifecycles.md": lifecycles,
    "docs/config.md": config_document.render,
}


def stale_pages() -> list[str]:
    """The generated pages that do not say what the code says."""
    return [page for page, make in PAGES.items() if _written(page) != make()]


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check only judge them."""
    stale = stale_pages()
    if arguments == ["--check"]:
        for page in stale:
            print(f"{page} is stale: run ./dev docs")
        return 1 if stale else 0
    for page in stale:
        (ROOT / page).write_text(PAGES[page](), encoding="utf-8")
        print(f"wrote {page}")
    return 0


def _written(page: str) -> str | None:
    path = ROOT / page
    return path.read_text(encoding="utf-8") if path.exists() else None


def _packages_in_layer_order() -> Iterator[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            for layer in contract["layers"]:
                names = (name.strip() for name in layer.split("|"))
                yield from (name for name in names if (ROOT / "openab" / name).is_dir())


def _modules(package: Path) -> list[Path]:
    here = [path for path in package.rglob("*.py") if path != package / "__init__.py"]
    return sorted(path for path in here if "versions" not in path.parts)


def _dotted(path: Path) -> str:
    name = path.relative_to(ROOT / "openab").with_suffix("").as_posix()
    return name.removesuffix("/__init__").replace("/", ".")


def _sentence(path: Path) -> str:
    return first_paragraph(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))))


def _machines() -> Iterator[tuple[str, str, str]]:
    sys.path.insert(0, str(ROOT))
    from openab import domain  # noqa: PLC0415 - only this page needs the code itself
    from openab.domain.machine import Machine  # noqa: PLC0415

    for found in pkgutil.iter_modules(domain.__path__):
        module = importlib.import_module(f"openab.domain.{found.name}")
        title = found.name.replace("_", " ").capitalize()
        for value in vars(module).values():
            if isinstance(value, Machine):
                yield title, first_paragraph(module.__doc__), value.to_mermaid()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
