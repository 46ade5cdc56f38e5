"""What can happen to a request: each kind of fault, made by one function."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from openab.simulator.discord.errors import Json, Refused, refused
from openab.simulator.discord.limits import VIA, TooMany


@dataclass(frozen=True)
class RestFault:
    """What happens to a request: wait, commit or not, wait, then cut, a given answer, or the real one."""

    name: str
    commits: bool = False
    wait_before: float = 0.0
    wait_after: float = 0.0
    cuts: bool = False
    status: int = 0
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def commit_then(status: int = 502) -> RestFault:
    """The world changes, yet the answer is a server error."""
    return RestFault(f"commit_then_{status}", commits=True, status=status, body=_page(status))


def commit_then_drop() -> RestFault:
    """The world changes, then the connection is cut without an answer."""
    return RestFault("commit_then_drop", commits=True, cuts=True)


def drop_before_commit() -> RestFault:
    """The connection is cut and nothing has happened."""
    return RestFault("drop_before_commit", cuts=True)


def hang(seconds: float, commit: Literal["before", "after", "never"] = "before") -> RestFault:
    """No answer for `seconds`; the world changes before the wait, after it, or never (then: cut)."""
    if commit == "before":
        return RestFault("hang_committed", commits=True, wait_after=seconds)
    if commit == "after":
        return RestFault("hang_uncommitted", commits=True, wait_before=seconds)
    return RestFault("hang_never", wait_before=seconds, cuts=True)


def server_error(status: int = 503) -> RestFault:
    """A server error; nothing has happened."""
    return RestFault(f"error_{status}", status=status, body=_page(status))


def refuse(code: int, *, status: int | None = None) -> RestFault:
    """Any of Discord's refusals, such as 50013."""
    answer: Refused = refused(code, status=status)
    headers = dict(VIA) if answer.status == 429 else {}
    body = answer.body | ({"retry_after": 1.0, "global": False} if headers else {})
    return RestFault(f"refuse_{code}", status=answer.status, body=body, headers=headers)


def rate_limited(
    kind: Literal["bucket", "sub_limit", "global", "long", "no_via"] = "bucket",
    retry_after: float | None = None,
) -> RestFault:
    """A 429. `sub_limit` still has requests left in its bucket; `no_via` looks like Cloudflare's ban."""
    seconds = retry_after if retry_after is not None else {"long": 300.0}.get(kind, 0.5)
    scope = {"global": "global", "long": "shared"}.get(kind, "user")
    answer = TooMany(seconds, scope, is_global=kind == "global")
    headers = {"Retry-After": str(max(1, round(seconds))), "X-RateLimit-Scope": scope}
    if kind == "global":
        headers["X-RateLimit-Global"] = "true"
    if kind in {"bucket", "sub_limit"}:
        headers |= {
            "X-RateLimit-Limit": "5",
            "X-RateLimit-Remaining": "3" if kind == "sub_limit" else "0",
            "X-RateLimit-Reset-After": f"{seconds:.3f}",
            "X-RateLimit-Bucket": "message-writes",
        }
    if kind != "no_via":
        headers |= VIA
    return RestFault(f"429_{kind}", status=429, body=answer.body, headers=headers)


def _page(status: int) -> Json:
    return {"message": f"{status}: upstream failure", "code": 0}
