"""The folder where everything of ours is kept, and how files in it are made."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


def user_home(environ: Mapping[str, str]) -> Path:
    """The user's home folder: `$HOME`, else what the system knows."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def openab_home(environ: Mapping[str, str]) -> Path:
    """`$OPENAB_HOME`, else `~/.openab`. It need not exist."""
    home = user_home(environ)
    return expand_home(environ.get("OPENAB_HOME") or "~/.openab", home)


def expand_home(path: str, home: Path) -> Path:
    """The path with a leading `~` replaced by `home`; other users' homes are not looked up."""
    if path == "~":
        return home
    return home / path[2:] if path.startswith("~/") else Path(path)


def private_folder(path: Path) -> Path:
    """Make the folder if it is missing, and see that only its owner can enter it. Repeatable."""
    path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    mode = path.stat().st_mode
    # A sticky folder is shared on purpose (`/tmp`): closing it would hurt everybody else.
    if mode & 0o077 and not mode & stat.S_ISVTX:
        path.chmod(_FOLDER_MODE)
    return path


def private_file(path: Path) -> Path:
    """Make the file if it is missing, and see that only its owner can read it. Repeatable."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
    if path.stat().st_mode & 0o077:
        path.chmod(_FILE_MODE)
    return path
