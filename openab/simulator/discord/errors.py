"""Refusals with the codes, texts and bodies Discord answers (Discord API documentation)."""

from typing import Any

Json = dict[str, Any]

#: Code → HTTP status and text. Texts as Discord sends them.
CATALOGUE: dict[int, tuple[int, str]] = {
    10003: (404, "Unknown Channel"),
    10004: (404, "Unknown Guild"),
    10007: (404, "Unknown Member"),
    10008: (404, "Unknown Message"),
    10013: (404, "Unknown User"),
    10014: (400, "Unknown Emoji"),
    10015: (404, "Unknown Webhook"),
    10062: (404, "Unknown interaction"),
    20016: (429, "This action cannot be performed due to slowmode rate limit"),
    20028: (429, "The write action you are performing on the channel has hit the write rate limit"),
    20029: (429, "The write action you are performing on the server has hit the write rate limit"),
    30007: (400, "Maximum number of webhooks reached (15)"),
    30010: (400, "Maximum number of reactions reached (20)"),
    30033: (400, "Maximum number of thread participants has been reached (1000)"),
    30034: (400, "Maximum number of daily application command creates has been reached (200)"),
    30046: (
        429,
        "Maximum number of edits to messages older than 1 hour reached. Try again later",
    ),
    40003: (429, "You are opening direct messages too fast"),
    40005: (413, "Request entity too large"),
    40060: (400, "Interaction has already been acknowledged."),
    40333: (403, "internal network error"),
    50001: (403, "Missing Access"),
    50003: (403, "Cannot execute action on a DM channel"),
    50005: (403, "Cannot edit a message authored by another user"),
    50006: (400, "Cannot send an empty message"),
    50007: (403, "Cannot send messages to this user"),
    50013: (403, "Missing Permissions"),
    50024: (400, "Cannot execute action on this channel type"),
    50027: (401, "Invalid Webhook Token"),
    50035: (400, "Invalid Form Body"),
    50045: (400, "File uploaded exceeds the maximum size"),
    50083: (400, "Thread is archived"),
    50109: (400, "The request body contains invalid JSON."),
    110000: (503, "API resource is currently overloaded. Try again a little later"),
    130000: (503, "API resource is currently overloaded. Try again a little later"),
    160002: (400, "You cannot reply without permission to read message history"),
    160004: (400, "A thread has already been created for this message"),
    160005: (400, "Thread is locked"),
    160006: (400, "Maximum number of active threads reached"),
    200000: (400, "Message was blocked by automatic moderation"),
}


class Refused(Exception):
    """Discord will not do it; carries the status and the body it answers."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(f"{status} {body.get('code')}: {body.get('message')}")
        self.status = status
        self.body = body

    @property
    def code(self) -> int:
        """The JSON error code."""
        return int(self.body["code"])


def refused(code: int, *, status: int | None = None) -> Refused:
    """The refusal with this code, its usual text and status."""
    usual, text = CATALOGUE.get(code, (400, "Refused"))
    return Refused(status or usual, {"message": text, "code": code})


def invalid_form(path: str, code: str, text: str) -> Refused:
    """50035 with the nested `errors` object that points at `path` (dotted)."""
    nested: Json = {"_errors": [{"code": code, "message": text}]}
    for part in reversed(path.split(".")):
        nested = {part: nested}
    body = {"message": CATALOGUE[50035][1], "code": 50035, "errors": nested}
    return Refused(400, body)


def unauthorised() -> Refused:
    """A token Discord does not know."""
    return Refused(401, {"message": "401: Unauthorized", "code": 0})


def not_found() -> Refused:
    """A path Discord does not serve."""
    return Refused(404, {"message": "404: Not Found", "code": 0})
