"""Is this machine in order: our folder, the agent's folder, secrets in files that others can read."""

import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from openab.app.diagnosis.report import Found, failure, warning, well


def home_folder(home: Path) -> Iterator[Found]:
    """`$OPENAB_HOME`: ours, and for nobody else."""
    part = "openab's folder"
    try:
        mode = home.stat().st_mode
    except FileNotFoundError:
        yield _not_made_yet(part, home)
        return
    except OSError as error:
        yield failure(part, f"{home}: {error.strerror}", "let it be a folder of your own")
        return
    if not stat.S_ISDIR(mode) or not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield failure(part, f"{home} is no folder that we can write", "set OPENAB_HOME")
        return
    open_paths = [path for path in (home, *_files(home)) if _is_open(path)]
    for path in open_paths:
        wanted = "700" if path.is_dir() else "600"
        yield warning(part, f"others can enter or read {path}", f"chmod {wanted} {_quoted(path)}")
    if not open_paths:
        yield well(part, f"{home}, for its owner alone")


def working_folder(path: Path, section: str = "agent") -> Found:
    """The agent's working directory; `section` is where the configuration has it."""
    part = "working directory" if section == "agent" else f"working directory of {section}"
    if not path.exists():
        return failure(part, f"{path} does not exist", f"mkdir -p {_quoted(path)}")
    if not path.is_dir():
        return failure(part, f"{path} is no folder", f"correct [{section}].working_dir")
    if not os.access(path, os.W_OK | os.X_OK):
        remedy = f"correct its rights or [{section}].working_dir"
        return failure(part, f"{path} cannot be written", remedy)
    return well(part, str(path))


def secrets_in_files(files: Iterable[Path], secrets: Iterable[str]) -> Iterator[Found]:
    """Whether a secret stands in one of the files, and who else can read it."""
    wanted = [each.encode("utf-8", "surrogateescape") for each in secrets if each]
    for path in files:
        with suppress(OSError):
            content = path.read_bytes()
            if any(secret in content for secret in wanted):
                yield _exposed(path)


def _exposed(path: Path) -> Found:
    if path.stat().st_mode & 0o077:
        remedy = f"chmod 600 {_quoted(path)}; whoever read it may still have it: make a new one"
        return warning("secrets", f"a secret stands in {path}, which others can read", remedy)
    told = f"a secret stands in {path}; the agent runs as the same user and can read it"
    return warning("secrets", told, "see docs/security.md for how to run it as another user")


def _not_made_yet(part: str, home: Path) -> Found:
    parent = next(each for each in home.absolute().parents if each.exists())
    if os.access(parent, os.W_OK | os.X_OK):
        return well(part, f"{home} is made at the first start")
    return failure(part, f"{home} cannot be made in {parent}", "set OPENAB_HOME to another place")


def _files(home: Path) -> list[Path]:
    return sorted(path for path in home.iterdir() if path.is_file())


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o077)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
