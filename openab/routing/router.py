"""The delivery router: where a task's completion goes, decided by the bindings and told in the log."""

import structlog

from openab.domain.destination import Destination, EventKind, resolve
from openab.domain.ids import ConversationRef, SessionKey
from openab.routing.bindings import Bindings
from openab.storage.engine import Transaction

log = structlog.get_logger()


async def resolve_destination(
    tx: Transaction,
    bindings: Bindings,
    event_kind: EventKind,
    target_session_key: SessionKey,
    requester: ConversationRef | None = None,
    *,
    fail_closed: bool = True,
) -> Destination:
    """The destination of a completion as it stands in this transaction; every decision is logged."""
    found = (
        await bindings.list_by_session(tx, target_session_key) if target_session_key.strip() else []
    )
    destination = resolve(target_session_key, found, requester, fail_closed=fail_closed)
    bound = destination.binding

    def tell() -> None:
        log.info(
            "delivery_routed",
            kind=event_kind.value,
            mode=destination.mode.value,
            reason=destination.reason.value,
            session=target_session_key,
            destination=bound.conversation.conversation_id if bound else None,
        )

    tx.after_commit(tell)
    return destination
