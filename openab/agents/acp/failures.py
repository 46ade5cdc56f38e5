"""What an agent's error means: words for people, and whether a session is definitely gone (pure)."""

import json
import re
from enum import StrEnum
from typing import Any

from openab.domain.agent_events import AgentFailure, FailureKind

AUTH_REQUIRED = -32000
NOT_FOUND = -32002
METHOD_NOT_FOUND = -32601
REQUEST_CANCELLED = -32800

# Only one agent in eight answers -32002 for an unknown id; the others say it in words.
_ABSENT = re.compile(
    r"not[\s_-]*found|no such|does ?n[o']t exist|unknown|invalid|no previous|\bno [\w -]{0,40}found|"
    r"\bno [\w -]{0,40}with",
    re.IGNORECASE,
)
_OF_A_SESSION = re.compile(r"session|conversation|thread|rollout|\bnotfounderror", re.IGNORECASE)
_OF_SOMETHING_ELSE = re.compile(
    r"model|api.?key|provider|method|command|credential|token|host", re.IGNORECASE
)


class Restore(StrEnum):
    """What a failed session/resume or session/load tells about the session."""

    #: The agent knows no such session.
    GONE = "gone"
    #: The agent does not know the method.
    UNSUPPORTED = "unsupported"
    #: Anything else: the session may well be there.
    DOUBT = "doubt"


class RpcError(Exception):
    """The agent answered a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class ConnectionLost(Exception):
    """The agent's process or pipe is gone; nothing on it will be answered any more."""


def restore_failure(error: RpcError, acp_session_id: str) -> Restore:
    """Classify by code first, then by words; a doubt keeps the session's id."""
    if error.code == METHOD_NOT_FOUND:
        return Restore.UNSUPPORTED
    if error.code == NOT_FOUND:
        return Restore.GONE
    said = f"{error.message} {_detail(error.data)}"
    rest = said.replace(acp_session_id, " session ") if acp_session_id else said
    if _OF_SOMETHING_ELSE.search(rest) or not _ABSENT.search(rest):
        return Restore.DOUBT
    return Restore.GONE if _OF_A_SESSION.search(rest) else Restore.DOUBT


def words(error: RpcError) -> str:
    """The error in one line: the message, and the detail that agents hide in `data`."""
    detail = _detail(error.data)
    return f"{error.message}: {detail}" if detail and detail not in error.message else error.message


def failure_of(error: RpcError, auth_methods: tuple[str, ...], stderr_tail: str) -> AgentFailure:
    """A JSON-RPC error as a failure; -32000 is the wish for a login."""
    wants_login = error.code == AUTH_REQUIRED
    return AgentFailure(
        kind=FailureKind.AUTH_REQUIRED if wants_login else FailureKind.ERROR,
        message=words(error),
        code=error.code,
        stderr_tail=stderr_tail,
        auth_methods=auth_methods if wants_login else (),
    )


def _detail(data: object, depth: int = 3) -> str:
    """The words in `data`; model providers' errors stand a level or two deeper (`data.error.message`)."""
    if isinstance(data, dict):
        for name in ("message", "details", "detail", "error", "data"):
            value = data.get(name)
            if isinstance(value, dict) and depth and (found := _detail(value, depth - 1)):
                return found
            if isinstance(value, str) and value:
                return value
    if isinstance(data, str):
        return data
    return json.dumps(data)[:500] if data else ""
