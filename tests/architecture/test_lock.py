"""requirements.lock fits pyproject.toml, is hashed, and names no index."""

import re
import tomllib
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository import ROOT

PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)


def lock() -> str:
    return (ROOT / "requirements.lock").read_text(encoding="utf-8")


def requirements() -> list[Requirement]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    wanted = [*project["dependencies"], *settings["build-system"]["requires"]]
    for extra in project["optional-dependencies"].values():
        wanted += extra
    return [Requirement(text) for text in wanted]


def unmet(text: str) -> Iterator[str]:
    """The requirements that no version pinned in the lock fulfils."""
    pins: dict[str, list[str]] = {}
    for name, version in PIN.findall(text):
        pins.setdefault(canonicalize_name(name), []).append(version)
    for requirement in requirements():
        versions = pins.get(canonicalize_name(requirement.name), [])
        if not any(requirement.specifier.contains(v, prereleases=True) for v in versions):
            yield str(requirement)


def test_the_lock_fulfils_every_requirement() -> None:
    assert not list(unmet(lock())), "run ./dev fix"


def test_a_requirement_that_the_lock_does_not_fulfil_is_noticed() -> None:
    without = re.sub(r"^structlog==\S+", "structlog==1.0", lock(), flags=re.MULTILINE)

    assert [text.partition("<")[0] for text in unmet(without)] == ["structlog"]


def test_every_pin_has_a_hash() -> None:
    blocks = re.split(r"^(?=\S)", lock(), flags=re.MULTILINE)
    pins = [block for block in blocks if PIN.match(block)]

    assert len(pins) > 50
    assert not [block.splitlines()[0] for block in pins if "--hash=sha256:" not in block]


def test_the_lock_names_no_address() -> None:
    assert "://" not in lock()


def test_the_build_backend_is_locked_too() -> None:
    names = {canonicalize_name(name) for name, _ in PIN.findall(lock())}

    # An editable install without build isolation needs both.
    assert {"hatchling", "editables"} <= names
