"""The channel port over Discord's HTTP interface: one request a call, errors translated."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from discord.http import Route

from openab.channels.discord import threads, webhooks
from openab.channels.discord.bodies import payload
from openab.channels.discord.rest import DiscordRest
from openab.domain.ids import MessageRef, PlatformId
from openab.domain.outbound import MessageBody
from openab.ports.channel import ChannelRejected, ChannelUnreachable, Refusal, SeenMessage

_MESSAGES = "/channels/{channel_id}/messages"
_MESSAGE = _MESSAGES + "/{message_id}"
_REACTION = _MESSAGE + "/reactions/{emoji}/@me"
_MEMBER = "/channels/{channel_id}/thread-members/{user_id}"
_USER = "/users/{user_id}"
_UNKNOWN_USER = 10013
_UNKNOWN_REACTION = 10014


class DiscordChannel:
    """Fulfils `openab.ports.channel.Channel` for one account; needs no gateway, only a logged-in `rest`.

    `permit` is asked right before each request's first byte: False ends the call as
    ChannelUnreachable with nothing sent. `guarded` gives the same channel with another permit.
    """

    def __init__(self, rest: DiscordRest, permit: Callable[[], bool] | None = None) -> None:
        self._rest = rest
        self._permit = permit

    def guarded(self, permit: Callable[[], bool]) -> "DiscordChannel":
        """This channel for an owner whose right to write ends when `permit` says so."""
        return DiscordChannel(self._rest, permit)

    async def create_message(
        self, conversation_id: PlatformId, body: MessageBody, nonce: str, seconds: float
    ) -> PlatformId:
        """As the port says."""
        route = Route("POST", _MESSAGES, channel_id=conversation_id)
        return threads.id_of(await self._write(route, seconds, payload(body, nonce=nonce)))

    async def edit_message(self, ref: MessageRef, body: MessageBody, seconds: float) -> None:
        """As the port says."""
        await self._write(_message("PATCH", ref), seconds, payload(body, edit=True))

    async def delete_message(self, ref: MessageRef, seconds: float) -> None:
        """As the port says; in a conversation that is gone, everything is deleted."""
        with _already(Refusal.MESSAGE_GONE, Refusal.CONVERSATION_GONE):
            await self._write(_message("DELETE", ref), seconds)

    async def open_thread(self, trigger: MessageRef, title: str, seconds: float) -> PlatformId:
        """As the port says."""
        return await threads.open_thread(self._rest, trigger, title, seconds, self._permit)

    async def find_webhook(self, parent: PlatformId, seconds: float) -> PlatformId | None:
        """As the port says."""
        return await webhooks.find(self._rest, parent, seconds)

    async def make_webhook(self, parent: PlatformId, seconds: float) -> PlatformId:
        """As the port says."""
        return await webhooks.make(self._rest, parent, seconds, self._permit)

    async def post_as_persona(
        self,
        thread: PlatformId,
        parent: PlatformId,
        webhook: PlatformId,
        body: MessageBody,
        seconds: float,
    ) -> PlatformId:
        """As the port says."""
        place = webhooks.Stand(thread, parent, webhook)
        return await webhooks.post(self._rest, place, body, seconds, self._permit)

    async def unarchive(self, conversation_id: PlatformId, seconds: float) -> None:
        """As the port says."""
        await threads.unarchive(self._rest, conversation_id, seconds, self._permit)

    async def add_thread_member(self, thread: PlatformId, user: PlatformId, seconds: float) -> None:
        """As the port says."""
        await self._write(Route("PUT", _MEMBER, channel_id=thread, user_id=user), seconds)

    async def user_name(self, user: PlatformId, seconds: float) -> str:
        """As the port says."""
        try:
            found = await self._rest.call(Route("GET", _USER, user_id=user), seconds=seconds)
        except ChannelRejected as error:
            if error.code == _UNKNOWN_USER:
                return ""
            raise
        if not isinstance(found, Mapping):
            raise ChannelUnreachable("Discord's user cannot be read")
        return str(found.get("global_name") or found.get("username") or "")

    async def add_reaction(self, ref: MessageRef, emoji: str, seconds: float) -> None:
        """As the port says."""
        await self._write(_reaction("PUT", ref, emoji), seconds)

    async def remove_reaction(self, ref: MessageRef, emoji: str, seconds: float) -> None:
        """As the port says."""
        with _already(Refusal.MESSAGE_GONE, Refusal.CONVERSATION_GONE, code=_UNKNOWN_REACTION):
            await self._write(_reaction("DELETE", ref, emoji), seconds)

    async def history(
        self, conversation_id: PlatformId, *, after: PlatformId, limit: int, seconds: float
    ) -> Sequence[SeenMessage]:
        """As the port says; Discord gives the newest first."""
        route = Route("GET", _MESSAGES, channel_id=conversation_id)
        query = {"after": after, "limit": str(limit)}
        found = await self._rest.call(route, query=query, seconds=seconds)
        if not isinstance(found, list):
            raise ChannelUnreachable("Discord's history cannot be read")
        return sorted(map(_seen, found), key=lambda message: int(message.message_id))

    async def fetch_message(self, ref: MessageRef, seconds: float) -> SeenMessage | None:
        """As the port says."""
        try:
            found = await self._rest.call(_message("GET", ref), seconds=seconds)
        except ChannelRejected as error:
            if error.refusal in {Refusal.MESSAGE_GONE, Refusal.CONVERSATION_GONE}:
                return None
            raise
        return _seen(found)

    async def _write(self, route: Route, seconds: float, body: Any = None) -> Any:
        return await self._rest.call(route, json_body=body, seconds=seconds, permit=self._permit)


def _message(method: str, ref: MessageRef) -> Route:
    return Route(method, _MESSAGE, channel_id=ref.conversation_id, message_id=ref.message_id)


def _reaction(method: str, ref: MessageRef, emoji: str) -> Route:
    return Route(
        method, _REACTION, channel_id=ref.conversation_id, message_id=ref.message_id, emoji=emoji
    )


@contextmanager
def _already(*refusals: Refusal, code: int | None = None) -> Iterator[None]:
    """These refusals say that what was wanted is the case already."""
    try:
        yield
    except ChannelRejected as error:
        if error.refusal not in refusals and error.code != code:
            raise


def _seen(raw: Any) -> SeenMessage:
    try:
        return _read(raw)
    except (KeyError, TypeError, ValueError) as error:
        raise ChannelUnreachable(f"Discord's message cannot be read: {error!r}") from error


def _read(raw: Mapping[str, Any]) -> SeenMessage:
    nonce = raw.get("nonce")
    return SeenMessage(
        message_id=PlatformId(str(raw["id"])),
        author_id=PlatformId(str(raw["author"]["id"])),
        content=raw["content"],
        sent_at=datetime.fromisoformat(raw["timestamp"]),
        nonce=None if nonce is None else str(nonce),
        is_interaction=bool(raw.get("interaction_metadata") or raw.get("interaction")),
    )
