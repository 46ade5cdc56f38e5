"""Takes secrets out of whatever is about to be logged (pure)."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from urllib.parse import quote, quote_plus

#: What stands where a secret was.
MARK = "***"

# Shorter ones occur in ordinary words, and hiding those would make every line unreadable.
_SHORTEST_SECRET = 4
_DEEPEST = 6
_MOST_PASSES = 20

_WORD = r"[A-Za-z0-9_-]"
_SLASH = r"(?:/|%2[Ff])"

# A bot token is three dotted words; what is glued to it by more dots is hidden along with it, because
# nobody can tell where the token begins.
_DOTTED = re.compile(rf"(?<!{_WORD}){_WORD}++(?:\.{_WORD}++)++")
_BOT_TOKEN = re.compile(rf"(?<!{_WORD}){_WORD}{{17,}}\.{_WORD}{{5,8}}\.{_WORD}{{25,}}")

# Each hides its group "secret".
_PATTERNS = (
    re.compile(
        r"(?i:authorization)[\\\"']*\s*[:=,]\s*(?:b(?=[\\\"']))?[\\\"']*"
        r"(?:(?i:bot|bearer|basic|token)\s+)?(?P<secret>[^\s\"',;)}\]\\]+)"
    ),
    re.compile(r"\b(?i:bot|bearer|basic)\s+(?P<secret>[A-Za-z0-9._~+/=-]{20,})"),
    re.compile(
        rf"{_SLASH}(?:webhooks|interactions){_SLASH}\d+{_SLASH}(?P<secret>[A-Za-z0-9._~=-]+)"
    ),
    # Interaction tokens are base64 of "interaction:…", so they are known on sight.
    re.compile(r"(?P<secret>aW50ZXJhY3Rpb246[A-Za-z0-9+/=_-]+)"),
    # Up to the last "@", since a password may hold one although it should not; another address ends
    # the search, else a text full of them would cost its length squared.
    re.compile(r"://[^\s/:@]{0,200}:(?P<secret>(?:(?!://)\S){1,1000})@"),
    re.compile(
        r"(?i:(?<![a-z])(?:password|passwd|pwd|token|api_key|apikey|secret)=)(?P<secret>[^\s&;#]+)"
    ),
)

# None of the shapes above does without one of these; most field names and values have none.
_HAS_SHAPE = re.compile(r"[.:/=%,\s]|aW50")

_SECRET_KEYS = frozenset(
    {
        "authorization",
        "proxy_authorization",
        "token",
        "bot_token",
        "password",
        "passwd",
        "secret",
        "api_key",
        "cookie",
    }
)


class Redactor:
    """Replaces secrets by `***`: those it was told of, and those it knows by their shape.

    Safe to call on anything; whatever it returns holds no secret it knows. Done twice it changes
    nothing more.
    """

    def __init__(self) -> None:
        self._spellings: tuple[str, ...] = ()
        self._any_spelling = re.compile(r"(?!)")

    def add(self, secret: str) -> bool:
        """Hide this text from now on, in its escaped spellings too; False: too short to be hidden."""
        if len(secret) < _SHORTEST_SECRET:
            return False
        known = {*self._spellings, *_spellings(secret)}
        self._spellings = tuple(sorted(known))
        self._any_spelling = re.compile("|".join(map(re.escape, self._spellings)))
        return True

    def text(self, text: str) -> str:
        """The text without secrets."""
        for _ in range(_MOST_PASSES):
            hidden = _hide(text, self._spans(text))
            if hidden == text:
                return text
            # A mark and its neighbours may spell another secret.
            text = hidden
        return MARK

    def value(self, value: object) -> object:
        """The value without secrets, made of None, bool, int, float, str, bytes, dict and list only."""
        return self._value(value, _DEEPEST)

    def _value(self, value: object, depth: int) -> object:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, str):
            return self.text(str.__str__(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(bytes(value))
        if depth > 0 and isinstance(value, Mapping):
            return {self.text(_said(k)): self._entry(k, v, depth - 1) for k, v in value.items()}
        if depth > 0 and isinstance(value, Sequence | Set):
            return [self._value(item, depth - 1) for item in value]
        return self.text(_said(value))

    def _entry(self, key: object, value: object, depth: int) -> object:
        if isinstance(key, bytes):
            key = key.decode("latin-1")
        if isinstance(key, str) and key.lower().replace("-", "_") in _SECRET_KEYS:
            return MARK if value else self._value(value, depth)
        return self._value(value, depth)

    def _number(self, value: float) -> object:
        said = str(value)
        hidden = self.text(said)
        plain = value if math.isfinite(value) else said
        return plain if hidden == said else hidden

    def _bytes(self, value: bytes) -> bytes:
        # Surrogate escapes keep every byte, and valid text in the middle is still found.
        text = value.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        if self._any_spelling.search(text):
            for spelling in self._spellings:
                yield from _occurrences(text, spelling)
        if _HAS_SHAPE.search(text):
            yield from _shapes(text)


def _shapes(text: str) -> Iterator[tuple[int, int]]:
    for run in _DOTTED.finditer(text):
        if _BOT_TOKEN.search(run.group()):
            yield run.span()
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield match.span("secret")


def _occurrences(text: str, part: str) -> Iterator[tuple[int, int]]:
    # Overlapping ones too: hiding only the first would leave the tail of the second.
    start = text.find(part)
    while start >= 0:
        yield start, start + len(part)
        start = text.find(part, start + 1)


def _hide(text: str, spans: Iterator[tuple[int, int]]) -> str:
    pieces: list[str] = []
    hidden_to = 0
    for start, end in sorted(spans):
        if start > hidden_to or not pieces:
            pieces += [text[hidden_to:start], MARK]
        hidden_to = max(hidden_to, end)
    return "".join(pieces) + text[hidden_to:]


def _spellings(secret: str) -> set[str]:
    """The secret as it looks in an address, in JSON and in Python's own notation."""
    raw = secret.encode("utf-8", "surrogatepass")
    addresses = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    lower = {re.sub(r"%[0-9A-F]{2}", lambda found: found.group().lower(), a) for a in addresses}
    notations = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    # Python escapes one kind of quote or the other, depending on the rest of the text.
    plain = repr(f"'\"{secret}")[4:-1]
    notations |= {repr(secret)[1:-1], ascii(secret)[1:-1], repr(raw)[2:-1], plain}
    return {secret} | addresses | lower | notations


def _said(value: object) -> str:
    """The object in its own words; one whose words fail is named by its type."""
    try:
        return (
            f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
        )
    except Exception:  # noqa: BLE001  a log line must not fail because of what it tells
        return f"<unprintable {type(value).__name__}>"
