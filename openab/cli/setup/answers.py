"""What a person answered, read strictly (pure), and the file that says it."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from openab.app.diagnosis.candidates import Candidate
from openab.channels.discord.access import Access
from openab.config.substitute import escape

TOKEN_VARIABLE = "DISCORD_BOT_TOKEN"
#: Discord's tokens are base64url parts with dots between.
_TOKEN = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_ID = re.compile(r"[0-9]{15,20}", re.ASCII)
_SEPARATORS = re.compile(r"[\s,;]+")


class NotUnderstood(ValueError):
    """The answer cannot be used; the message says what would be."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Everything that the file will say. None for a list: everybody, everywhere."""

    token: str = field(repr=False)
    is_token_in_file: bool
    agent: Candidate
    working_dir: str
    channels: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    inherit_env: tuple[str, ...] = ()
    api_base: str = ""


def read_token(typed: str) -> str:
    """The token without what is often copied with it. Raises NotUnderstood."""
    token = typed.strip().strip("\"'").removeprefix("Bot ").strip()
    if not token:
        raise NotUnderstood("nothing was typed (what is typed is not shown)")
    if not _TOKEN.fullmatch(token):
        raise NotUnderstood("a token holds only letters, digits, and the characters . _ -")
    return token


def read_channels(typed: str, shown: Sequence[Access]) -> tuple[str, ...] | None:
    """`all`, or numbers of the list shown, or ids. Raises NotUnderstood."""
    return _chosen(typed, [access.channel for access in shown])


def read_users(typed: str) -> tuple[str, ...] | None:
    """`all`, or ids. Raises NotUnderstood."""
    return _chosen(typed, [])


def read_command(typed: str) -> Candidate:
    """A command line as a shell would split it. Raises NotUnderstood."""
    try:
        words = shlex.split(typed)
    except ValueError as error:
        raise NotUnderstood(f"{error}; write it as in a shell") from None
    if not words:
        raise NotUnderstood("type the agent's command, for instance: opencode acp")
    return Candidate(words[0], tuple(words[1:]))


def config_text(answers: Answers) -> str:
    """The file. Texts are written so that they are read back as they are, `${` included."""
    token = answers.token if answers.is_token_in_file else f"${{{TOKEN_VARIABLE}}}"
    lines = [
        "# Written by `openab setup`. After changes: openab config check",
        "[discord]",
        f'bot_token = "{token}"',
        _allowed("channels", answers.channels),
        _allowed("users", answers.users),
    ]
    if answers.api_base:
        lines.append(f"api_base = {_quoted(answers.api_base)}")
    lines += [
        "",
        "[agent]",
        f"command = {_quoted(answers.agent.command)}",
        f"args = {_listed(answers.agent.args)}",
        f"working_dir = {_quoted(answers.working_dir)}",
    ]
    if answers.inherit_env:
        lines.append(f"inherit_env = {_listed(answers.inherit_env)}")
    return "\n".join(lines) + "\n"


def masked(text: str, token: str) -> str:
    """The file as it may be shown."""
    return text.replace(token, "***")


def _chosen(typed: str, numbered: Sequence[str]) -> tuple[str, ...] | None:
    words = [word for word in _SEPARATORS.split(typed.strip()) if word]
    if [word.lower() for word in words] == ["all"]:
        return None
    if not words:
        raise NotUnderstood("type all, or what to choose")
    return tuple(dict.fromkeys(_one(word, numbered) for word in words))


def _one(word: str, numbered: Sequence[str]) -> str:
    if _ID.fullmatch(word):
        return word
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(numbered):
        return numbered[int(word) - 1]
    numbers = f"a number from 1 to {len(numbered)}, or " if numbered else ""
    raise NotUnderstood(f"{word!r} is not {numbers}an id of 15 to 20 digits")


def _allowed(noun: str, ids: tuple[str, ...] | None) -> str:
    return f"allow_all_{noun} = true" if ids is None else f"allowed_{noun} = {_listed(ids)}"


def _listed(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    # `${NAME}` would be replaced from the environment; the escape keeps it as it is.
    return '"' + escape(text).replace("${", "\\u0024{") + '"'
