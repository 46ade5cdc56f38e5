"""Discord's REST as one bot uses it: waits where it is told to, repeats what cannot be done twice."""

import asyncio
import time
import uuid
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp

#: So often a call is tried that got no answer, or a server error.
_TRIES = 5
_PAUSE_SECONDS = 1.0
_CALL_SECONDS = 30.0
_AGENT = "DiscordBot (openab conformance, 1)"


class RefusedByDiscord(Exception):
    """Discord will not do it; `code` is its own, 0 where it gives none."""

    def __init__(self, status: int, code: int, told: str) -> None:
        super().__init__(f"Discord answers {status} ({code or 'no code'}): {told}")
        self.status = status
        self.code = code


class OutOfReach(Exception):
    """Discord gives no usable answer at this address."""


class Rest:
    """One bot's calls."""

    def __init__(self, session: aiohttp.ClientSession, api_base: str, token: str) -> None:
        self.token = token
        self._session, self._base = session, api_base.rstrip("/")
        self._headers = {"Authorization": f"Bot {token}", "User-Agent": _AGENT}
        self._free_at: dict[str, float] = {}
        #: Seconds by which our clock is ahead of Discord's, by its newest answer.
        self.skew = 0.0

    async def get(self, path: str) -> Any:
        """What stands there."""
        return await self.call("GET", path)

    async def post_message(self, channel: str, content: str, pinged: str | None = None) -> str:
        """Post a message that pings at most one user; its id. A repeated call posts nothing twice."""
        body = {
            "content": content,
            "allowed_mentions": {"parse": [], "users": [pinged] if pinged else []},
            "nonce": uuid.uuid4().hex[:25],
            "enforce_nonce": True,
        }
        made = await self.call("POST", f"/channels/{channel}/messages", body)
        return str(made["id"])

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's body. RefusedByDiscord, or OutOfReach after several tries."""
        for _ in range(_TRIES):
            await asyncio.sleep(max(0.0, self._free_at.get(method + path, 0.0) - time.monotonic()))
            try:
                status, headers, answer = await self._once(method, path, body)
            except (aiohttp.ClientError, TimeoutError, ValueError):
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._note_limit(method + path, status, headers, answer)
            self.skew = _skew(headers.get("Date"))
            if status == 429:
                continue
            if status < 500:
                return _checked(status, answer)
            await asyncio.sleep(_PAUSE_SECONDS)
        raise OutOfReach(f"no usable answer to {method} {self._base}{_shown(path)}")

    async def _once(self, method: str, path: str, body: Any) -> tuple[int, Any, Any]:
        async with self._session.request(
            method,
            self._base + path,
            json=body,
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=_CALL_SECONDS),
        ) as answer:
            is_empty = answer.status == 204
            return answer.status, answer.headers, None if is_empty else await answer.json()

    def _note_limit(self, key: str, status: int, headers: Any, answer: Any) -> None:
        """When this call may be made again."""
        wait = 0.0
        if status == 429:
            told = answer.get("retry_after") if isinstance(answer, dict) else None
            wait = float(told or headers.get("Retry-After") or _PAUSE_SECONDS)
        elif headers.get("X-RateLimit-Remaining") == "0":
            wait = float(headers.get("X-RateLimit-Reset-After", 0))
        self._free_at[key] = time.monotonic() + wait


def _skew(date: str | None) -> float:
    return time.time() - parsedate_to_datetime(date).timestamp() if date else 0.0


def _checked(status: int, answer: Any) -> Any:
    if status < 400:
        return answer
    told = answer if isinstance(answer, dict) else {}
    raise RefusedByDiscord(status, int(told.get("code") or 0), str(told.get("message") or ""))


def _shown(path: str) -> str:
    """The path without a webhook's secret."""
    return "/webhooks/…" if path.startswith("/webhooks/") else path
