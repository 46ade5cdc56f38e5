"""One of the processes that decide on hand-offs: it says that it is ready, reads its order, and reports."""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid5

from openab.domain.errors import Transient
from openab.domain.handoff import Envelope, Refusal
from openab.domain.ids import AccountId, MessageRef, PlatformId, TurnId
from openab.storage import handoffs
from openab.storage.engine import Database
from openab.storage.handoffs import Incoming

_HERE = PlatformId("500")


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is to do: decide the first messages, all of them or until its time is over."""

    address: str
    receiver: str
    #: Unix seconds of the first message.
    began: float
    seconds: float
    messages: int
    #: Each has twelve in a minute.
    sources: int


@dataclass(frozen=True, slots=True)
class Report:
    """What a process did."""

    decisions: int
    accepted: int


def _incoming(order: Order, n: int) -> Incoming:
    """The n-th message, the same for whoever sees it."""
    source = PlatformId(f"8{n % order.sources:02}")
    envelope = Envelope(
        source=source,
        target=PlatformId(order.receiver),
        event_id=str(uuid5(UUID(int=0), f"{order.receiver}:{n}")),
        origin_channel=_HERE,
        origin_thread=None,
        origin_message=None,
        expires_at=int(order.began) + 3600,
        text="Do it.",
    )
    sent_at = datetime.fromtimestamp(order.began + n * 5 / order.sources, UTC)
    return Incoming(
        AccountId(order.receiver), envelope, MessageRef(_HERE, PlatformId(str(n))), sent_at
    )


async def _work(order: Order) -> Report:
    database = await Database.open(order.address)
    decisions = accepted = 0
    try:
        end = time.monotonic() + order.seconds
        while decisions < order.messages and time.monotonic() < end:
            refusal = await _decision(database, _incoming(order, decisions))
            decisions += 1
            accepted += refusal is None
    finally:
        await database.close()
    return Report(decisions, accepted)


async def _decision(database: Database, incoming: Incoming) -> Refusal | None:
    while True:
        try:
            async with database.transaction() as tx:
                return await handoffs.accept(tx, incoming, TurnId("turn"))
        except Transient:
            # As intake does: the database was too busy.
            continue


def _main() -> None:
    sys.stdout.write(".")
    sys.stdout.flush()
    order = Order(**json.loads(sys.stdin.readline()))
    print(json.dumps(asdict(asyncio.run(_work(order)))))


if __name__ == "__main__":
    _main()
