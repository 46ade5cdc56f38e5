"""One line of an agent's stdout → a JSON-RPC message that the SDK survives, or nothing (pure)."""

import json
from typing import Any

Json = dict[str, Any]
INTERNAL_ERROR = -32603


def parse(line: bytes) -> Json | None:
    """The message in a line, normalised; None for anything that is no JSON-RPC object."""
    try:
        message = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return normalise(message) if isinstance(message, dict) else None


def normalise(message: Json) -> Json | None:
    """Ids, errors and `_meta` in the only shapes that are safe; None where it makes no sense."""
    message.pop("_meta", None)
    if "method" in message:
        return _call(message)
    return _response(message) if "id" in message else None


def _call(message: Json) -> Json | None:
    if not isinstance(message["method"], str):
        return None
    params = message.get("params")
    message["params"] = params if isinstance(params, dict) else {}
    message["params"].pop("_meta", None)
    return message


def _response(message: Json) -> Json | None:
    number = request_number(message["id"])
    if number is None:
        return None
    if message.get("error") is None:
        return {"id": number, "result": message.get("result")}
    return {"id": number, "error": error_object(message["error"])}


def request_number(value: object) -> int | None:
    """Our requests are numbered from 0: the number in an id, however it is written."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def error_object(error: object) -> Json:
    """Any error as an object with an integer code and a text."""
    if not isinstance(error, dict):
        return {"code": INTERNAL_ERROR, "message": str(error)}
    code, message = error.get("code"), error.get("message")
    return {
        "code": code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR,
        "message": message if isinstance(message, str) else json.dumps(message),
        "data": error.get("data"),
    }


def sendable(text: str) -> str:
    """Text as every JSON parser takes it: a lone surrogate becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
