"""The channel port: what a chat network's adapter promises for sending.

One call makes at most one HTTP request, within the deadline it is given. Three outcomes: it
returns (done), it raises `Rejected` or `Transient` (definitely not done), or it raises
`DeliveryUnknown` (it may have happened). The adapter never repeats a call by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from openab.domain.errors import Rejected, Transient, Unknown
from openab.domain.ids import MessageRef, PlatformId
from openab.domain.outbound import MessageBody


class Refusal(StrEnum):
    """Why the network refused, as far as it changes what is done next."""

    #: 160004: the message already has a thread; its id is the message's.
    THREAD_EXISTS = "thread_exists"
    #: 10008: the message is gone (or, on a create, the nonce is known and its message was deleted).
    MESSAGE_GONE = "message_gone"
    #: 10003, 10004: channel or guild is gone.
    CONVERSATION_GONE = "conversation_gone"
    #: 50083: the thread is archived.
    ARCHIVED = "archived"
    #: 160005: the thread is locked.
    LOCKED = "locked"
    #: 160002, or 50035 on the message reference.
    REFERENCE_INVALID = "reference_invalid"
    #: 30046: too many edits of an old message.
    EDIT_TOO_OLD = "edit_too_old"
    #: 50001, 50013: missing access or permission.
    FORBIDDEN = "forbidden"
    #: 160006, 30033: too many threads.
    THREAD_LIMIT = "thread_limit"
    #: 50006, 50035: the body is empty or invalid.
    INVALID_BODY = "invalid_body"
    #: 10015: the webhook is gone.
    WEBHOOK_GONE = "webhook_gone"
    #: 30007: the channel has as many webhooks as it may have.
    WEBHOOK_LIMIT = "webhook_limit"
    #: 200000: AutoMod blocked it.
    BLOCKED = "blocked"
    #: 401: the token is not accepted any more.
    UNAUTHORIZED = "unauthorized"
    #: Any other definite refusal.
    OTHER = "other"


class ChannelRejected(Rejected):
    """A definite refusal by the network; nothing was done."""

    def __init__(self, refusal: Refusal, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.refusal = refusal
        self.code = code


class ChannelBusy(Transient):
    """A rate limit or write limit (429 and its kin): definitely not done; `retry_after` seconds are told."""


class ChannelUnreachable(Transient):
    """No byte of the request left, so it definitely was not done."""


class DeliveryUnknown(Unknown):
    """The request may have been carried out: 5xx, a lost connection or a time-out after bytes left."""


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """A message read from history, as much as resolving an unknown delivery needs."""

    message_id: PlatformId
    author_id: PlatformId
    content: str
    sent_at: datetime
    nonce: str | None = None
    #: Made by an interaction answer, thus never by a delivery of ours.
    is_interaction: bool = False


class Channel(Protocol):
    """A chat network, for one account."""

    async def create_message(
        self, conversation_id: PlatformId, body: MessageBody, nonce: str, seconds: float
    ) -> PlatformId:
        """Post a message; the same nonce within the network's window answers the earlier message's id."""
        ...

    async def edit_message(self, ref: MessageRef, body: MessageBody, seconds: float) -> None:
        """Replace a message's content and buttons. Doing it twice is harmless."""
        ...

    async def delete_message(self, ref: MessageRef, seconds: float) -> None:
        """Delete a message; one that is gone already counts as deleted."""
        ...

    async def open_thread(self, trigger: MessageRef, title: str, seconds: float) -> PlatformId:
        """Open a thread on a message. THREAD_EXISTS is raised, not adopted: the caller decides."""
        ...

    async def find_webhook(self, parent: PlatformId, seconds: float) -> PlatformId | None:
        """Our webhook of a channel, the oldest if there are several; whoever looks later finds the same."""
        ...

    async def make_webhook(self, parent: PlatformId, seconds: float) -> PlatformId:
        """Make one. Two that are made at once are two: look again, and use what is found."""
        ...

    async def post_as_persona(
        self,
        thread: PlatformId,
        parent: PlatformId,
        webhook: PlatformId,
        body: MessageBody,
        seconds: float,
    ) -> PlatformId:
        """Post in a thread below `parent` under the body's persona; it pings nobody.

        The webhook's credential is asked for anew each time, so this is a read and one post: what is
        said of one call above is true of the post. There is no nonce. WEBHOOK_GONE: make another.
        """
        ...

    async def unarchive(self, conversation_id: PlatformId, seconds: float) -> None:
        """Take a thread out of the archive."""
        ...

    async def add_thread_member(self, thread: PlatformId, user: PlatformId, seconds: float) -> None:
        """Make somebody a member of a thread. Doing it twice is harmless."""
        ...

    async def user_name(self, user: PlatformId, seconds: float) -> str:
        """What a user is called; empty if there is nobody of that id."""
        ...

    async def add_reaction(self, ref: MessageRef, emoji: str, seconds: float) -> None:
        """React to a message. Doing it twice is harmless."""
        ...

    async def remove_reaction(self, ref: MessageRef, emoji: str, seconds: float) -> None:
        """Take our reaction back; one that is not there counts as removed."""
        ...

    async def history(
        self, conversation_id: PlatformId, *, after: PlatformId, limit: int, seconds: float
    ) -> Sequence[SeenMessage]:
        """Messages with an id > `after`, oldest first, at most `limit` (100 at most)."""
        ...

    async def fetch_message(self, ref: MessageRef, seconds: float) -> SeenMessage | None:
        """One message, or None if it is definitely gone."""
        ...
