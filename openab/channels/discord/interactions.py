"""Slash commands, buttons and menus: each is answered within Discord's three seconds, for the asker's eyes only."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from discord.http import Route

from openab.channels.discord.bodies import EPHEMERAL, answer_payload
from openab.channels.discord.inbound import inbound_command
from openab.channels.discord.places import DIRECT, PlaceFacts, Places, place_facts
from openab.channels.discord.rest import DiscordRest
from openab.domain.errors import OpenabError
from openab.domain.ids import AccountId, PlatformId
from openab.domain.message import CommandKind, InboundCommand, Place
from openab.domain.outbound import CommandAnswer
from openab.ports.tasks import end, spawn
from openab.storage.engine import DatabaseUnavailable

Answer = Callable[[InboundCommand], Awaitable[CommandAnswer]]
UNKNOWN_WORDS = "This is not in use any more. `/cancel` stops the running turn."
FAILED_WORDS = "That did not work; the log of the bot says why."
NOT_NOW_WORDS = (
    "The bot cannot take that now: its database is busy or away. Please try again in a moment."
)
_MESSAGE = 4
_DEFERRED = 5
_DEFERRED_UPDATE = 6
_UPDATE = 7
#: These come from a menu that only the asker sees, and change it where it is.
_IN_PLACE = frozenset({CommandKind.CHOOSE, CommandKind.PAGE})
#: Commands and buttons; the others (autocompletion, forms) are never asked for by us.
_ANSWERABLE = frozenset({2, 3})
#: Discord forgets an interaction that is not answered within three seconds.
_CALL_SECONDS = 2.5
_AFTER_DEFER_SECONDS = 60.0

log = structlog.get_logger()


class Interactions:
    """Answers interactions with what `answer` says; `patience_seconds` later it asks for time first."""

    def __init__(
        self,
        rest: DiscordRest,
        account: AccountId,
        application: PlatformId,
        answer: Answer,
        places: Places,
        patience_seconds: float = 1.5,
    ) -> None:
        self._rest = rest
        self._account = account
        self._application = application
        self._answer = answer
        self._places = places
        self._patience_seconds = patience_seconds

    async def serve(self, raw: Mapping[str, Any]) -> None:
        """Answer one raw interaction; a failure is logged and told to the asker, never raised."""
        if raw["type"] not in _ANSWERABLE:
            return
        command = inbound_command(raw, self._account, self._facts(raw))
        try:
            if command is None:
                await self._respond(raw, _MESSAGE, CommandAnswer(UNKNOWN_WORDS))
            else:
                await self._serve(raw, command)
        except OpenabError as error:
            log.warning("interaction_not_answered", interaction_id=str(raw["id"]), error=str(error))

    async def _serve(self, raw: Mapping[str, Any], command: InboundCommand) -> None:
        deciding = spawn("discord-command", _awaited(self._answer(command)))
        try:
            await asyncio.wait({deciding}, timeout=self._patience_seconds)
            in_place = command.kind in _IN_PLACE
            if deciding.done():
                kind = _UPDATE if in_place else _MESSAGE
                await self._respond(raw, kind, _answered(deciding, command))
                return
            await self._defer(raw, _DEFERRED_UPDATE if in_place else _DEFERRED)
            await asyncio.wait({deciding}, timeout=_AFTER_DEFER_SECONDS)
            await self._complete(raw, _answered(deciding, command))
        finally:
            if not deciding.done():
                await end(deciding)

    async def _respond(self, raw: Mapping[str, Any], kind: int, answer: CommandAnswer) -> None:
        said = answer_payload(answer, edit=kind == _UPDATE)
        await self._rest.call(
            _callback(raw), json_body={"type": kind, "data": said}, seconds=_CALL_SECONDS
        )

    async def _defer(self, raw: Mapping[str, Any], kind: int) -> None:
        body: dict[str, Any] = {"type": kind}
        if kind == _DEFERRED:
            body["data"] = {"flags": EPHEMERAL}
        await self._rest.call(_callback(raw), json_body=body, seconds=_CALL_SECONDS)

    async def _complete(self, raw: Mapping[str, Any], answer: CommandAnswer) -> None:
        route = Route(
            "PATCH",
            "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
            webhook_id=self._application,
            webhook_token=str(raw["token"]),
        )
        said = answer_payload(answer, edit=True)
        await self._rest.call(route, json_body=said, seconds=_CALL_SECONDS)

    def _facts(self, raw: Mapping[str, Any]) -> PlaceFacts:
        """Interactions bring their channel, so nothing needs to be fetched within the three seconds."""
        if raw.get("guild_id") is None:
            return DIRECT
        known = self._places.find(PlatformId(str(raw["channel_id"])))
        if known is not None:
            return known
        channel = raw.get("channel")
        return PlaceFacts(Place.CHANNEL) if channel is None else place_facts(channel)


def _callback(raw: Mapping[str, Any]) -> Route:
    return Route(
        "POST",
        "/interactions/{webhook_id}/{webhook_token}/callback",
        webhook_id=str(raw["id"]),
        webhook_token=str(raw["token"]),
    )


async def _awaited(answer: Awaitable[CommandAnswer]) -> CommandAnswer:
    return await answer


def _answered(deciding: "asyncio.Task[CommandAnswer]", command: InboundCommand) -> CommandAnswer:
    failure = deciding.exception() if deciding.done() else TimeoutError()
    if failure is None:
        return deciding.result()
    if isinstance(failure, DatabaseUnavailable):
        # It is told and logged where it troubles everybody; here it is only this press that failed.
        log.warning("command_not_taken", interaction_id=command.interaction_id, error=str(failure))
        return CommandAnswer(NOT_NOW_WORDS)
    log.error(
        "command_failed",
        interaction_id=command.interaction_id,
        kind=command.kind,
        exc_info=failure,
    )
    return CommandAnswer(FAILED_WORDS)
