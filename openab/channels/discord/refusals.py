"""Discord's error codes, translated to what the channel port says about them."""

from collections.abc import Mapping
from typing import Any

from openab.domain.errors import OpenabError
from openab.ports.channel import (
    ChannelBusy,
    ChannelRejected,
    DeliveryUnknown,
    Refusal,
)

_BY_CODE = {
    10003: Refusal.CONVERSATION_GONE,
    10004: Refusal.CONVERSATION_GONE,
    10008: Refusal.MESSAGE_GONE,
    10015: Refusal.WEBHOOK_GONE,
    30007: Refusal.WEBHOOK_LIMIT,
    30033: Refusal.THREAD_LIMIT,
    30046: Refusal.EDIT_TOO_OLD,
    50001: Refusal.FORBIDDEN,
    50006: Refusal.INVALID_BODY,
    50013: Refusal.FORBIDDEN,
    50035: Refusal.INVALID_BODY,
    50083: Refusal.ARCHIVED,
    160002: Refusal.REFERENCE_INVALID,
    160004: Refusal.THREAD_EXISTS,
    160005: Refusal.LOCKED,
    160006: Refusal.THREAD_LIMIT,
    200000: Refusal.BLOCKED,
}
_BY_STATUS = {401: Refusal.UNAUTHORIZED, 403: Refusal.FORBIDDEN}
#: Refusals that are not about rights or tokens although their status says so.
_OTHER = frozenset({40333})
#: Slow mode, write limits, direct messages opened too fast, Discord overloaded.
_BUSY = frozenset({20016, 20028, 20029, 40003, 110000, 130000})
#: A proxy on the way gave up waiting for Discord, which may have carried the request out.
_REQUEST_TIMEOUT = 408
DEFAULT_RETRY_SECONDS = 5.0


def is_refusal(answer: Mapping[str, Any]) -> bool:
    """Whether the answer's code is a definite refusal, even on a 429 (30046 comes with one)."""
    return _code(answer) in _BY_CODE


def translate(status: int, answer: Mapping[str, Any]) -> OpenabError:
    """The error that a status of 300 or more (a mere 429 apart) means for whoever called."""
    code = _code(answer)
    words = f"Discord answered {status}, code {code}: {answer.get('message', '')}"
    if status >= 500 or status == _REQUEST_TIMEOUT:
        return DeliveryUnknown(words)
    if code in _BUSY:
        return ChannelBusy(words, _retry_after(answer))
    return ChannelRejected(_refusal(status, code, answer), words, code)


def _refusal(status: int, code: int, answer: Mapping[str, Any]) -> Refusal:
    if status == 401:
        return Refusal.UNAUTHORIZED
    errors = answer.get("errors")
    if code == 50035 and isinstance(errors, Mapping) and "message_reference" in errors:
        return Refusal.REFERENCE_INVALID
    if code in _OTHER:
        return Refusal.OTHER
    return _BY_CODE.get(code) or _BY_STATUS.get(status, Refusal.OTHER)


def _code(answer: Mapping[str, Any]) -> int:
    code = answer.get("code", 0)
    return code if isinstance(code, int) else 0


def _retry_after(answer: Mapping[str, Any]) -> float:
    told = answer.get("retry_after")
    return float(told) if isinstance(told, int | float) else DEFAULT_RETRY_SECONDS
