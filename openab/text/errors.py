"""What an error code of an agent is called, and what a person can do about its class."""

from collections.abc import Mapping
from http import HTTPStatus

_RPC_NAMES: Mapping[int, str] = {
    -32700: "Parse Error",
    -32600: "Invalid Request",
    -32601: "Method Not Found",
    -32602: "Invalid Params",
    -32603: "Internal Error",
}
_SERVER_ERRORS = range(-32099, -31999)
_OVERLOADED = 529
_NO_NAME = "Error"

_LOGIN = "Check the agent's login or API key, then ask again."
_QUOTA = "Check the plan and quota of the agent's account."
_LATER = "It usually passes: ask again in a moment."
_LESS = "Ask for less at once."
_UPDATE = "The agent does not know what was asked of it: update the agent."
_CHANGE = "Ask again or change the request."
_REMEDIES: Mapping[int, str] = {
    401: _LOGIN,
    402: _QUOTA,
    403: _LOGIN,
    408: _LATER,
    413: _LESS,
    429: _LATER,
    500: _LATER,
    502: _LATER,
    503: _LATER,
    504: _LATER,
    _OVERLOADED: _LATER,
    -32601: _UPDATE,
}


def error_name(code: int | None) -> str:
    """The name of a JSON-RPC or HTTP error code; `Error` for every other one, and for none."""
    if code is None:
        return _NO_NAME
    if code in _SERVER_ERRORS:
        return "Server Error"
    return _RPC_NAMES.get(code) or _http_name(code)


def error_title(code: int | None) -> str:
    """The name in bold, with the code behind it where there is one."""
    name = f"**{error_name(code)}**"
    return name if code is None else f"{name} (code: {code})"


def remedy(code: int | None) -> str:
    """What to do, by the class of the code."""
    return _CHANGE if code is None else _REMEDIES.get(code, _CHANGE)


def _http_name(code: int) -> str:
    if code == _OVERLOADED:
        return "Overloaded"
    is_known = code >= HTTPStatus.BAD_REQUEST and code in set(HTTPStatus)
    return HTTPStatus(code).phrase if is_known else _NO_NAME
