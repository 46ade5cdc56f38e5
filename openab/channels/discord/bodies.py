"""The one place where JSON bodies with content are made for Discord; each says who may be pinged."""

from collections.abc import Sequence
from typing import Any

from openab.domain.outbound import Button, CommandAnswer, Menu, MessageBody

SUPPRESS_EMBEDS = 1 << 2
EPHEMERAL = 1 << 6
SUPPRESS_NOTIFICATIONS = 1 << 12
#: Discord answers 400 to a longer one.
LONGEST_NONCE = 25
_ROW = 5
_SELECT = 3
_STYLES = {"primary": 1, "secondary": 2, "success": 3, "danger": 4}


def payload(
    body: MessageBody, *, nonce: str | None = None, edit: bool = False, ephemeral: bool = False
) -> dict[str, Any]:
    """The JSON of a create, an edit or an interaction answer; `allowed_mentions` is always explicit.

    An edit can neither reply, nor be silent, nor carry a nonce, so those are left out of it.
    """
    made: dict[str, Any] = {
        "content": clean(body.content),
        "allowed_mentions": _allowed_mentions(body),
        "components": _rows(body.buttons),
    }
    if edit:
        return made
    made["flags"] = (
        (SUPPRESS_NOTIFICATIONS if body.silent else 0)
        | (SUPPRESS_EMBEDS if body.is_bare else 0)
        | (EPHEMERAL if ephemeral else 0)
    )
    if body.reply_to is not None:
        # No channel_id: a reference that names one is refused when it is not the message's own.
        made["message_reference"] = {"message_id": body.reply_to, "fail_if_not_exists": False}
    if nonce is not None:
        made.update(nonce=_checked(nonce), enforce_nonce=True)
    return made


def answer_payload(answer: CommandAnswer, *, edit: bool = False) -> dict[str, Any]:
    """The JSON of a command's answer, which only its author sees: text, menu, buttons."""
    menu = answer.menu
    turners = menu.turners if menu else ()
    body = MessageBody(answer.text, buttons=(*turners, *answer.buttons))
    made = payload(body, edit=edit, ephemeral=True)
    if menu:
        made["components"] = [_menu_row(menu), *made["components"]]
    return made


def clean(text: str) -> str:
    """What can stand in JSON for Discord: NUL is dropped, a lone surrogate becomes U+FFFD."""
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return paired.replace("\0", "")


def _allowed_mentions(body: MessageBody) -> dict[str, Any]:
    # Discord pings a reply's author by `replied_user` alone, whatever stands in `users`.
    is_named_reply = body.reply_to is not None and body.mention is not None
    pings_author = is_named_reply and body.pings_author
    users = [body.mention] if body.mention is not None else []
    return {"parse": [], "users": users, "replied_user": pings_author}


def _rows(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    return [
        {"type": 1, "components": [_button(button) for button in buttons[start : start + _ROW]]}
        for start in range(0, len(buttons), _ROW)
    ]


def _menu_row(menu: Menu) -> dict[str, Any]:
    options = [
        {
            "label": clean(item.label),
            "value": item.value,
            "default": item.is_current,
            **({"description": clean(item.description)} if item.description else {}),
        }
        for item in menu.items
    ]
    select = {
        "type": _SELECT,
        "custom_id": menu.custom_id,
        "placeholder": clean(menu.placeholder),
        "options": options,
    }
    return {"type": 1, "components": [select]}


def _button(button: Button) -> dict[str, Any]:
    return {
        "type": 2,
        "style": _STYLES[button.style],
        "label": clean(button.label),
        "custom_id": button.custom_id,
    }


def _checked(nonce: str) -> str:
    if not 0 < len(nonce) <= LONGEST_NONCE:
        raise ValueError(f"a nonce has 1 to {LONGEST_NONCE} characters, not {len(nonce)}")
    return nonce
