"""Sends every log line of the process, libraries' and uncaught errors included, through one redacting pipeline."""

import asyncio
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, MutableMapping
from types import TracebackType
from typing import Any, TextIO

import structlog
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name

from openab.observability import levels, lines
from openab.observability.redaction import Redactor

#: `with context(turn_id=…):` puts the fields on every line logged inside, by libraries too.
context = bound_contextvars

_UNCAUGHT = structlog.stdlib.get_logger("openab.uncaught")

# Features that openab does not use; discord.py warns of their absence at each start.
_NOISE = ("PyNaCl is not installed", "davey is not installed")


class Logging:
    """The pipeline while it is installed; `restore` puts back whatever was there before."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self._undo: list[Callable[[], None]] = []

    def on_restore(self, undo: Callable[[], None]) -> None:
        """Have `undo` called when the pipeline is removed, the latest first."""
        self._undo.append(undo)

    def restore(self) -> None:
        """Remove the pipeline. Done twice it changes nothing more."""
        global _installed
        while self._undo:
            self._undo.pop()()
        if _installed is self:
            _installed = None


_installed: Logging | None = None


def setup(
    redactor: Redactor | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    stream: TextIO | None = None,
) -> Logging:
    """Install the pipeline: to `stream` (stderr), as text if it is a terminal, else as JSON lines.

    Done again it replaces the earlier one. Secrets are added to `.redactor` at any time.
    """
    global _installed
    if _installed is not None:
        _installed.restore()
    chosen = levels.read(os.environ if environ is None else environ)
    pipeline = _installed = Logging(redactor or Redactor())
    _take_over_loggers(pipeline, _handler(pipeline.redactor, stream or sys.stderr), chosen)
    _configure_structlog(pipeline)
    _take_over_hooks(pipeline)
    for word in chosen.unknown:
        structlog.stdlib.get_logger(__name__).warning("log_level_unknown", given=word)
    return pipeline


def loop_exception_handler(_loop: asyncio.AbstractEventLoop, report: dict[str, Any]) -> None:
    """For `loop.set_exception_handler`: logs what a callback or an unawaited task raised."""
    shown = {name: value for name, value in report.items() if name not in {"exception", "message"}}
    error = report.get("exception")
    _UNCAUGHT.error("loop_error", reason=report.get("message"), exc_info=error, **shown)


class _RedactingHandler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  the library's name
        """Say that a line was lost; the library's own version prints its arguments as they are."""
        failure = sys.exc_info()[0]
        name = failure.__name__ if failure else "unknown"
        fields = {"level": "error", "event": "log_line_lost", "origin": record.name, "reason": name}
        try:
            self.stream.write(lines.as_json(fields) + "\n")
        except (OSError, ValueError):
            return  # The stream is gone: there is nobody left to tell.


def _handler(redactor: Redactor, stream: TextIO) -> logging.Handler:
    handler = _RedactingHandler(stream)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[merge_contextvars, ExtraAdder()],
            processors=[*_SHARED, _Redaction(redactor), _Rendering(terminal=stream.isatty())],
        )
    )
    handler.addFilter(_is_no_noise)
    return handler


def _is_no_noise(record: logging.LogRecord) -> bool:
    return not (record.name.startswith("discord") and str(record.msg).startswith(_NOISE))


class _Redaction:
    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def __call__(
        self, _: Any, __: str, fields: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        hidden = self._redactor.value(fields)
        return hidden if isinstance(hidden, dict) else {}


class _Rendering:
    def __init__(self, *, terminal: bool) -> None:
        self._terminal = terminal

    def __call__(self, _: Any, __: str, fields: MutableMapping[str, Any]) -> str:
        return lines.as_text(fields, colour=True) if self._terminal else lines.as_json(fields)


_SHARED: tuple[Any, ...] = (
    add_log_level,
    add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
    structlog.processors.format_exc_info,
    ProcessorFormatter.remove_processors_meta,
)


def _take_over_loggers(pipeline: Logging, handler: logging.Handler, chosen: levels.Levels) -> None:
    known = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    named = [logging.getLogger(name) for name in chosen.named]
    for logger in {*known, *named, logging.root}:
        pipeline.on_restore(_loggers_past(logger))
        logger.handlers, logger.propagate, logger.disabled = [], True, False
        logger.setLevel(logging.NOTSET)
    logging.root.handlers = [handler]
    logging.root.setLevel(chosen.others)
    for name, level in chosen.named.items():
        logging.getLogger(name).setLevel(level)


def _loggers_past(logger: logging.Logger) -> Callable[[], None]:
    handlers, level = list(logger.handlers), logger.level
    propagate, disabled = logger.propagate, logger.disabled

    def undo() -> None:
        logger.handlers, logger.propagate, logger.disabled = handlers, propagate, disabled
        logger.setLevel(level)

    return undo


def _configure_structlog(pipeline: Logging) -> None:
    was_configured, before = structlog.is_configured(), structlog.get_config()

    def undo() -> None:
        structlog.reset_defaults()
        if was_configured:
            structlog.configure(**before)

    pipeline.on_restore(undo)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            merge_contextvars,
            ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        # Cached loggers would keep the pipeline of the day they were first used.
        cache_logger_on_first_use=False,
    )


def _take_over_hooks(pipeline: Logging) -> None:
    _replace(pipeline, sys, "excepthook", _uncaught)
    _replace(pipeline, sys, "unraisablehook", _unraisable)
    _replace(pipeline, threading, "excepthook", _uncaught_in_thread)
    _replace(pipeline, warnings, "showwarning", _warned)


def _replace(pipeline: Logging, where: Any, name: str, hook: Callable[..., None]) -> None:
    before = getattr(where, name)
    pipeline.on_restore(lambda: setattr(where, name, before))
    setattr(where, name, hook)


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _UNCAUGHT.critical("uncaught_error", exc_info=(kind, error, traceback))


def _unraisable(report: "sys.UnraisableHookArgs") -> None:
    error = report.exc_value
    _UNCAUGHT.error("uncaught_error", where=report.object, reason=report.err_msg, exc_info=error)


def _uncaught_in_thread(report: threading.ExceptHookArgs) -> None:
    thread = report.thread.name if report.thread else None
    if report.exc_type is not SystemExit:
        _UNCAUGHT.error("uncaught_error", thread=thread, exc_info=report.exc_value)


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001  the interpreter's signature
    line: str | None = None,  # noqa: ARG001
) -> None:
    where = f"{filename}:{lineno}"
    _UNCAUGHT.warning("warned", reason=str(message), kind=category.__name__, where=where)
