"""`openab run`: from a configuration to a running broker, and its exit code."""

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path

import structlog
import typer

from openab.app.account_lock import AccountTaken
from openab.app.broker import Broker
from openab.app.hardening import harden
from openab.app.malloc import return_large_blocks
from openab.app.signals import Signals
from openab.channels.discord.rest import TokenRefused
from openab.cli.findings import tell_findings
from openab.config.fetch import is_remote
from openab.config.findings import ConfigInvalid
from openab.config.load import Loaded, load
from openab.observability.logging import loop_exception_handler, setup
from openab.observability.redaction import Redactor
from openab.storage.failures import CommitUnknown, DatabaseUnavailable
from openab.storage.trouble import Trouble, of_os
from openab.storage.upgrade import SchemaRefused
from openab.web.server import CannotListen

log = structlog.get_logger()
FAILED, UNUSABLE = 1, 2
#: What an operator has to change before another start can work.
_UNUSABLE = (TokenRefused, AccountTaken, SchemaRefused, CannotListen)
_UNUSABLE_STORE = frozenset({Trouble.READ_ONLY, Trouble.REFUSED})


def start(source: str) -> None:
    """Run until stopped; ends the process with the exit code."""
    raise typer.Exit(_run(source))


def load_or_tell(source: str) -> Loaded | None:
    """The configuration; None: it cannot be used, and stderr says why and what to do."""
    if not is_remote(source) and not Path(source).exists():
        typer.echo(
            f"There is no {source}. Make one: openab setup  (or name one: -c FILE|URL)", err=True
        )
        return None
    try:
        return load(source, os.environ)
    except ConfigInvalid as invalid:
        tell_findings(source, invalid.cautions, invalid.mistakes)
        return None


def _run(source: str) -> int:
    loaded = load_or_tell(source)
    if loaded is None:
        return UNUSABLE
    redactor = redactor_for(loaded)
    setup(redactor)
    if not harden():
        log.debug("process_stays_dumpable")
    if not return_large_blocks():
        log.debug("large_blocks_may_stay")
    for caution in loaded.cautions:
        log.warning(
            "config_caution", key=str(caution.path), line=caution.line, told=caution.message
        )
    return _serve(loaded, redactor)


def _serve(loaded: Loaded, redactor: Redactor) -> int:
    try:
        with ExitStack() as stack:
            asyncio.run(_broker(loaded, redactor, stack))
    except Exception as error:
        reason, code = _told(error)
        if not reason:
            log.exception("broker_failed")
        else:
            log.error("cannot_start", reason=reason)  # noqa: TRY400 - the sentence tells it all
        return code
    return 0


def _told(error: BaseException) -> tuple[str, int]:
    """What an operator can do something about, wherever it stands in a group, and the exit code.

    A database that is away or full may be well at the next try; one that refuses us will not.
    """
    if isinstance(error, BaseExceptionGroup):
        found = map(_told, error.exceptions)
        return next((told for told in found if told[0]), ("", FAILED))
    if isinstance(error, _UNUSABLE):
        return str(error), UNUSABLE
    if isinstance(error, DatabaseUnavailable):
        told = f"the database cannot be used: {error.told}"
        return told, UNUSABLE if error.trouble in _UNUSABLE_STORE else FAILED
    if isinstance(error, CommitUnknown):
        # Whatever a start commits is right to commit again.
        return f"the database broke off while it stored something: {error}; start again", FAILED
    if isinstance(error, OSError) and (trouble := of_os(error.errno)) is not Trouble.AWAY:
        told = f"{error.strerror}: {error.filename or 'a file of openab'}; {trouble.remedy}"
        return told, UNUSABLE if trouble in _UNUSABLE_STORE else FAILED
    return "", FAILED


async def _broker(loaded: Loaded, redactor: Redactor, stack: ExitStack) -> None:
    asyncio.get_running_loop().set_exception_handler(loop_exception_handler)
    broker = Broker(loaded, dict(os.environ), redactor.text)
    # They stay ours until the loop has waited for its threads: a second signal ends that, too.
    signals = stack.enter_context(Signals(broker.reload))
    await broker.run(signals.stop)


def redactor_for(loaded: Loaded) -> Redactor:
    """Knows every secret of the configuration that could get into a log."""
    redactor = Redactor()
    redactor.add(loaded.config.discord.bot_token.reveal())
    for _name, value in loaded.config.agent_variables():
        redactor.add(value.reveal())
    return redactor
