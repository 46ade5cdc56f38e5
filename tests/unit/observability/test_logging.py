"""Every way of saying something goes through the redacting pipeline."""

import asyncio
import gc
import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from openab.observability import logging as pipeline
from openab.observability.redaction import MARK

TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.GfXyZ1.ZnCjm1XVW7vRze4b7Cq4se7kKWs-abcdefghijk"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def installed(stream: io.StringIO) -> Iterator[pipeline.Logging]:
    logs = pipeline.setup(environ={}, stream=stream)
    yield logs
    logs.restore()


def said(stream: io.StringIO) -> list[dict[str, Any]]:
    assert TOKEN not in stream.getvalue()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def refuse() -> None:
    raise ValueError(f"refused: Bot {TOKEN}")


def test_a_standard_logger_is_redacted(installed: pipeline.Logging, stream: io.StringIO) -> None:
    try:
        refuse()
    except ValueError:
        logging.getLogger("sqlalchemy.engine").exception(
            "with %s", TOKEN, extra={"header": {"Authorization": TOKEN}, "listed": [TOKEN]}
        )
    (line,) = said(stream)
    assert line["event"] == f"with {MARK}"
    assert line["level"] == "error"
    assert line["logger"] == "sqlalchemy.engine"
    assert line["header"] == {"Authorization": MARK}
    assert line["listed"] == [MARK]
    assert f"ValueError: refused: Bot {MARK}" in line["exception"]


def test_our_own_events_are_redacted(installed: pipeline.Logging, stream: io.StringIO) -> None:
    installed.redactor.add("hunter2-hunter2")
    try:
        refuse()
    except ValueError:
        structlog.get_logger("openab.x").exception("failed", seen=f"hunter2-hunter2 {TOKEN}")
    (line,) = said(stream)
    assert (line["event"], line["level"], line["logger"]) == ("failed", "error", "openab.x")
    assert line["seen"] == f"{MARK} {MARK}"
    assert MARK in line["exception"]


def test_context_is_on_every_line_and_ends(
    installed: pipeline.Logging, stream: io.StringIO
) -> None:
    with pipeline.context(turn_id="t1"):
        structlog.get_logger("openab").info("ours")
        logging.getLogger("discord").warning("theirs")
    structlog.get_logger("openab").info("after")
    assert [line.get("turn_id") for line in said(stream)] == ["t1", "t1", None]


def test_the_name_of_a_logger_is_its_module(
    installed: pipeline.Logging, stream: io.StringIO
) -> None:
    structlog.get_logger().warning("named")
    assert said(stream)[0]["logger"] == __name__


def test_levels_hold_for_ours_and_theirs(installed: pipeline.Logging, stream: io.StringIO) -> None:
    for name in ("openab.x", "discord.gateway", "aiohttp.access", "alembic.runtime.migration"):
        structlog.get_logger(name).debug("quiet")
        logging.getLogger(name).info("told")
    assert [(line["logger"], line["event"]) for line in said(stream)] == [("openab.x", "told")]


def test_a_level_can_be_asked_for_by_name(stream: io.StringIO) -> None:
    environ = {"OPENAB_LOG": "discord=debug,openab=loud"}
    logs = pipeline.setup(environ=environ, stream=stream)
    logging.getLogger("discord.http").debug("told")
    logs.restore()
    lines = said(stream)
    assert [line["event"] for line in lines] == ["log_level_unknown", "told"]
    assert lines[0]["given"] == "openab=loud"


def test_noise_of_the_discord_library_is_dropped(
    installed: pipeline.Logging, stream: io.StringIO
) -> None:
    log = logging.getLogger("discord.client")
    log.warning("PyNaCl is not installed, voice will NOT be supported")
    log.warning("davey is not installed, voice will NOT be supported")
    log.warning("We are being rate limited.")
    assert [line["event"] for line in said(stream)] == ["We are being rate limited."]


def test_handlers_of_libraries_are_taken_over(stream: io.StringIO) -> None:
    log, own = logging.getLogger("library.with.handler"), io.StringIO()
    handler = logging.StreamHandler(own)
    log.addHandler(handler)
    log.propagate = False
    pipeline.setup(environ={}, stream=stream).restore()
    assert (log.handlers, log.propagate) == ([handler], False)
    logs = pipeline.setup(environ={}, stream=stream)
    log.warning("with %s", TOKEN)
    logs.restore()
    log.removeHandler(handler)
    assert own.getvalue() == ""
    assert said(stream)[0]["event"] == f"with {MARK}"


def test_warnings_are_logged(installed: pipeline.Logging, stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # The context put back the hook of the interpreter; ours is what runs in a process.
        warnings.showwarning = pipeline._warned
        warnings.warn(f"old: {TOKEN}", DeprecationWarning, stacklevel=1)
    (line,) = said(stream)
    assert (line["event"], line["kind"]) == ("warned", "DeprecationWarning")
    assert line["reason"] == f"old: {MARK}"


def test_uncaught_errors_are_logged(installed: pipeline.Logging, stream: io.StringIO) -> None:
    try:
        refuse()
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    thread = threading.Thread(target=refuse, name="worker")
    thread.start()
    thread.join()
    main, worker = said(stream)
    assert (main["event"], main["level"]) == ("uncaught_error", "critical")
    assert MARK in main["exception"]
    assert worker["thread"] == "worker"
    assert MARK in worker["exception"]


def test_a_keyboard_interrupt_is_no_error(installed: pipeline.Logging, stream: io.StringIO) -> None:
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert said(stream) == []


class Grudge:
    def __del__(self) -> None:
        refuse()


def test_errors_of_finalizers_are_logged(installed: pipeline.Logging, stream: io.StringIO) -> None:
    grudge: Grudge | None = Grudge()
    assert grudge is not None
    grudge = None
    gc.collect()
    assert MARK in said(stream)[0]["exception"]


async def test_errors_of_callbacks_are_logged(
    installed: pipeline.Logging, stream: io.StringIO
) -> None:
    loop, ran = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(pipeline.loop_exception_handler)
    loop.call_soon(refuse)
    loop.call_soon(ran.set)
    await ran.wait()
    (line,) = said(stream)
    assert line["event"] == "loop_error"
    assert MARK in line["exception"]
    assert "handle" in line


async def test_the_default_loop_handler_is_redacted_too(
    installed: pipeline.Logging, stream: io.StringIO
) -> None:
    loop, ran = asyncio.get_running_loop(), asyncio.Event()
    loop.call_soon(refuse)
    loop.call_soon(ran.set)
    await ran.wait()
    (line,) = said(stream)
    assert line["logger"] == "asyncio"
    assert MARK in line["exception"]


def test_a_line_that_cannot_be_made_shows_no_arguments(
    stream: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    # Installed here, not by the fixture: pytest adds a handler of its own that raises.
    logs = pipeline.setup(environ={}, stream=stream)
    logging.getLogger("openab.x").warning("%d turns", TOKEN)
    logs.restore()
    (line,) = said(stream)
    assert (line["event"], line["origin"]) == ("log_line_lost", "openab.x")
    assert TOKEN not in "".join(capfd.readouterr())


def test_a_closed_stream_ends_nothing(
    installed: pipeline.Logging, stream: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    stream.close()
    logging.getLogger("openab.x").warning("to nobody: %s", TOKEN)
    assert "".join(capfd.readouterr()) == ""


def test_a_terminal_gets_text() -> None:
    stream = Terminal()
    logs = pipeline.setup(environ={}, stream=stream)
    try:
        refuse()
    except ValueError:
        structlog.get_logger("openab.x").exception("failed", said="a\nb")
    logs.restore()
    first, *rest = stream.getvalue().splitlines()
    assert "failed" in first
    assert r'said="a\nb"' in first
    assert all(line.startswith("  | ") for line in rest)
    assert TOKEN not in stream.getvalue()


def everything_global() -> list[object]:
    root = logging.getLogger()
    hooks: list[object] = [sys.excepthook, sys.unraisablehook, threading.excepthook]
    ours = [structlog.is_configured(), structlog.get_config()]
    return [*hooks, *ours, warnings.showwarning, list(root.handlers), root.level]


def test_setup_is_idempotent_and_reversible(stream: io.StringIO) -> None:
    before = everything_global()
    first = pipeline.setup(environ={}, stream=stream)
    second = pipeline.setup(environ={}, stream=stream)
    structlog.get_logger("openab").info("once")
    first.restore()
    structlog.get_logger("openab").info("still")
    assert [line["event"] for line in said(stream)] == ["once", "still"]
    second.restore()
    second.restore()
    assert everything_global() == before
