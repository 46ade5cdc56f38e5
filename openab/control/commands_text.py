"""The text twins of commands: done in the transaction that takes the message in, answered by a notice."""

from openab.control.commands_bindings import ABOUT_BINDINGS, SESSION, about_binding
from openab.control.commands_cancel import cancel, cancel_all, reset
from openab.control.commands_continue import go_on
from openab.control.commands_options import WANTED, Typed, option_by_text
from openab.control.commands_reports import session_list, usage
from openab.control.settings import Settings
from openab.domain.delivery import DeliveryKind, Purpose
from openab.domain.gates import Verdict
from openab.domain.ids import PlatformId
from openab.domain.message import Author, CommandKind
from openab.domain.outbound import presentation_body
from openab.storage import conversations, deliveries
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Owed
from openab.storage.engine import Transaction
from openab.text import notices
from openab.text.binding_replies import is_told_by_notice


async def answer_by_text(
    tx: Transaction,
    settings: Settings,
    here: Conversation,
    author: Author,
    message: PlatformId,
    verdict: Verdict,
) -> None:
    """Do the command that a message is, and owe its answer, unless a turn or a binding tells it itself."""
    text = await _done(tx, settings, here, author, verdict)
    name = author.display_name
    told_by_turn = {notices.cancelling(name), notices.cancelled_before_start(name)}
    if text in told_by_turn or text == notices.going_on() or is_told_by_notice(text):
        return
    await deliveries.owe(
        tx,
        Owed(
            account=settings.account,
            conversation=here.id,
            key=f"command:{settings.account}:{message}:v1",
            kind=DeliveryKind.CREATE,
            purpose=Purpose.NOTICE,
            body=presentation_body(text),
            seq=await conversations.take_seq(tx, here.id),
        ),
    )


async def _done(
    tx: Transaction, settings: Settings, here: Conversation, author: Author, verdict: Verdict
) -> str:
    kind = verdict.command
    if kind is CommandKind.CANCEL_ALL:
        return await cancel_all(tx, settings, here, author)
    if kind is CommandKind.CONTINUE:
        return await go_on(tx, settings, here, author, "")
    if kind is CommandKind.RESET:
        return await reset(tx, settings, here, author)
    if kind in WANTED:
        return await option_by_text(tx, settings, here, author, Typed(kind, verdict.argument))
    if kind in ABOUT_BINDINGS:
        asked = {SESSION: verdict.argument} if kind is CommandKind.FOCUS else {}
        return await about_binding(tx, settings, here, author, kind, asked)
    if kind is CommandKind.USAGE:
        return (await usage(tx, settings, here)).text
    if kind is CommandKind.SESSIONS:
        return (await session_list(tx, settings, here)).text
    return await cancel(tx, settings, here, author, None)
