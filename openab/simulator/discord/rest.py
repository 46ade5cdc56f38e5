"""Takes REST requests through journal, token, faults, limits and route, in that order."""

import json
import math
from collections.abc import Mapping
from email.utils import format_datetime
from typing import Any

from aiohttp import BodyPartReader, web

from openab.simulator.discord import (
    routes_channels,
    routes_messages,
    routes_users,
    routes_webhooks,
)
from openab.simulator.discord.calls import Answer, Call, Route, Services
from openab.simulator.discord.errors import (
    Json,
    Refused,
    invalid_form,
    not_found,
    refused,
    unauthorised,
)
from openab.simulator.discord.faults import FaultHandle, Faults
from openab.simulator.discord.forms import Upload
from openab.simulator.discord.journal import Journal, Request
from openab.simulator.discord.limits import VIA, Limited, TooMany

ROUTES = [
    *routes_users.ROUTES,
    *routes_channels.ROUTES,
    *routes_messages.ROUTES,
    *routes_webhooks.ROUTES,
]
PREFIX = "/api/v10"


def _unknown(_: Call) -> Answer:
    raise not_found()


_UNKNOWN = Route("*", "/{tail}", "unknown", _unknown, needs_token=False)


class Reply:
    """What is about to be answered: status, body, headers."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        self.status, self.body, self.headers = status, body, headers


class Rest:
    """The API's front: one `serve` for every route."""

    def __init__(self, services: Services, journal: Journal, faults: Faults) -> None:
        self._services, self._journal, self._faults = services, journal, faults

    def routes(self) -> list[web.RouteDef]:
        """Every path for aiohttp's router, the unknown ones last."""
        served = [web.route(one.method, PREFIX + one.template, self._of(one)) for one in ROUTES]
        return [*served, web.route("*", "/api/{tail:.*}", self._of(_UNKNOWN))]

    def _of(self, route: Route) -> Any:
        async def serve(incoming: web.Request) -> web.StreamResponse:
            try:
                return await self._serve(route, incoming)
            except (OSError, web.RequestPayloadError):
                # The client is gone, or was killed while it sent.
                raise
            except Exception as error:
                self._journal.broken.append(error)
                raise

        return serve

    async def _serve(self, route: Route, incoming: web.Request) -> web.StreamResponse:
        request = self._begin(route, incoming)
        call = Call(self._services, request, incoming.match_info)
        try:
            _check_ids(call)
            await self._read(incoming, call)
            self._authenticate(route, incoming, call)
        except Refused as refusal:
            return self._finish(request, Reply(refusal.status, refusal.body, {}))
        hit = self._faults.match(request)
        if hit is None:
            return self._finish(request, self._honest(route, call))
        return await self._faulty(hit, route, call, incoming)

    def _begin(self, route: Route, incoming: web.Request) -> Request:
        peer = incoming.transport.get_extra_info("peername") if incoming.transport else None
        request = self._journal.begin(
            method=incoming.method,
            path=_shown(incoming),
            template=route.template,
            route=route.name,
            connection=peer[1] if peer else 0,
            query=dict(incoming.query),
        )
        request.channel_id = incoming.match_info.get("channel_id")
        request.message_id = incoming.match_info.get("message_id")
        return request

    async def _read(self, incoming: web.Request, call: Call) -> None:
        if incoming.content_type == "multipart/form-data":
            await self._read_parts(incoming, call)
            return
        text = await incoming.read()
        call.request.body = _decoded(text) if text else None

    async def _read_parts(self, incoming: web.Request, call: Call) -> None:
        async for part in await incoming.multipart():
            if not isinstance(part, BodyPartReader):
                raise refused(50035)
            content = bytes(await part.read(decode=True))
            if part.name == "payload_json":
                call.request.body = _decoded(content)
            else:
                kind = part.headers.get("Content-Type", "application/octet-stream")
                upload = Upload(part.name or "", part.filename or "file", content, kind)
                call.uploads.append(upload)

    def _authenticate(self, route: Route, incoming: web.Request, call: Call) -> None:
        written = incoming.headers.get("Authorization", "")
        call.bot = self._services.world.user_of_token(written.removeprefix("Bot "))
        if call.bot is not None:
            call.request.bot_id = call.bot.id
        if not route.needs_token:
            self._attribute(call)
        elif call.bot is None:
            raise unauthorised()

    def _attribute(self, call: Call) -> None:
        """Whose request it is when its token is in its path: an application's or a webhook's."""
        token = call.params.get("interaction_token") or call.params.get("token", "")
        made = self._services.interactions.owner(token)
        hook = self._services.world.webhooks.get(call.params.get("webhook_id", ""))
        if made is not None:
            call.request.bot_id, call.request.channel_id = made.application_id, made.channel.id
        elif hook is not None:
            home = call.request.query.get("thread_id") or hook.channel_id
            call.request.bot_id, call.request.channel_id = hook.id, home

    def _honest(self, route: Route, call: Call) -> Reply:
        """Limits, then the route; nothing here waits, so a request is one step of the world."""
        taken: TooMany | Mapping[str, str] = {}
        if route.needs_token and call.bot:
            major = call.params.get("channel_id") or call.params.get("webhook_id") or ""
            taken = self._services.limits.take(call.bot.id, route.name, major)
        if isinstance(taken, TooMany):
            return _too_many(taken)
        try:
            answer = route.run(call)
        except Refused as refusal:
            headers = _refusal_headers(refusal)
            return Reply(refusal.status, refusal.body, {**taken, **headers})
        except Limited as limited:
            return _too_many(limited.answer)
        call.request.message_id = answer.message_id or call.request.message_id
        call.request.committed = call.request.method != "GET" and not answer.nonce_hit
        return Reply(answer.status, answer.body, taken)

    async def _faulty(
        self, hit: FaultHandle, route: Route, call: Call, incoming: web.Request
    ) -> web.StreamResponse:
        fault, request = hit.fault, call.request
        await hit.pause(fault.wait_before)
        reply = self._honest(route, call) if fault.commits else None
        self._journal.touch()
        await hit.pause(fault.wait_after)
        if fault.cuts:
            if incoming.transport is not None:
                incoming.transport.abort()
            self._journal.end(request, status=0, code=None)
            return web.Response(status=502)
        if fault.status or reply is None:
            reply = Reply(fault.status, fault.body, fault.headers)
        return self._finish(request, reply)

    def _finish(self, request: Request, reply: Reply) -> web.Response:
        code = reply.body.get("code") if isinstance(reply.body, dict) else None
        self._journal.end(request, status=reply.status, code=code)
        now = self._services.world.clock.wall()
        headers = {**reply.headers, "Date": format_datetime(now, usegmt=True)}
        if reply.body is None:
            return web.Response(status=reply.status, headers=headers)
        # Exactly this type: with a charset discord.py 2.7.1 takes the body for text.
        headers["Content-Type"] = "application/json"
        return web.Response(
            status=reply.status, body=json.dumps(reply.body).encode(), headers=headers
        )


def _shown(incoming: web.Request) -> str:
    """The path as the journal may show it: the secrets of webhooks and interactions are left out."""
    path = incoming.path.removeprefix(PREFIX)
    for name in ("token", "interaction_token"):
        secret = incoming.match_info.get(name)
        path = path.replace(secret, "***") if secret else path
    return path


def _check_ids(call: Call) -> None:
    """Ids in path and query are numbers, but for `@me` and `@original` (50035)."""
    paged = {key: call.request.query.get(key) for key in ("before", "after", "around")}
    if "threads" in call.request.path:
        paged = {}
    named = {key: value for key, value in call.params.items() if key.endswith("_id")}
    for key, value in {**paged, **named}.items():
        if value is not None and not value.isdigit() and not value.startswith("@"):
            text = f'Value "{value}" is not snowflake.'
            raise invalid_form(key, "NUMBER_TYPE_COERCE", text)


def _decoded(content: bytes) -> Json | list[Json]:
    try:
        body: Any = json.loads(content)
    except ValueError as error:
        raise refused(50109) from error
    if not isinstance(body, dict | list):
        raise refused(50035)
    return body


def _refusal_headers(refusal: Refused) -> dict[str, str]:
    if refusal.status != 429:
        return {}
    refusal.body.setdefault("retry_after", 1.0)
    refusal.body.setdefault("global", False)
    return dict(VIA)


def _too_many(answer: TooMany) -> Reply:
    headers = {
        **VIA,
        **answer.headers,
        "Retry-After": str(math.ceil(answer.retry_after)),
        "X-RateLimit-Scope": answer.scope,
    }
    return Reply(429, answer.body, headers)
