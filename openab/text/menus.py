"""Select menus for an agent's options: pages of 25, what is chosen now first, every text within its limit."""

import hashlib
from collections.abc import Sequence

from openab.domain.options import Choice, Option
from openab.domain.outbound import Button, Menu, MenuItem
from openab.text.measure import shorten, units
from openab.text.neutralize import wire_text

#: Discord's limits.
PAGE_SIZE = 25
LONGEST_TEXT = 100
LONGEST_PLACEHOLDER = 150
CONFIG_PREFIX = "openab:config:"
PAGE_PREFIX = "openab:page:"

_ROOM_FOR_PAGE = 8
_NO_NAME = "(no name)"


def menu(option: Option, page: int = 0) -> Menu | None:
    """The page (counted from 0) of an option's menu, the nearest one there is; None without choices."""
    choices = _current_first(option)
    if not choices:
        return None
    pages = -(-len(choices) // PAGE_SIZE)
    page = max(0, min(page, pages - 1))
    shown = choices[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
    return Menu(
        custom_id=CONFIG_PREFIX + _short(option.option_id, LONGEST_TEXT - len(CONFIG_PREFIX)),
        placeholder=_placeholder(option, page, pages),
        items=tuple(_item(choice, option.current) for choice in shown),
        page=page,
        pages=pages,
        turners=turners(option.category, page, pages),
    )


def token(text: str) -> str:
    """A value as a menu carries it: itself, or a digest of it where it is empty, too long or not fit for the wire."""
    return _short(text, LONGEST_TEXT)


def picked(option: Option, value: str) -> Choice | None:
    """The choice whose token came back; None if the option has it no more."""
    return next((choice for choice in option.choices if token(choice.value) == value), None)


def option_of(options: Sequence[Option], argument: str) -> Option | None:
    """The option that a menu's custom id names behind `openab:config:`."""
    room = LONGEST_TEXT - len(CONFIG_PREFIX)
    return next((each for each in options if _short(each.option_id, room) == argument), None)


def of_category(options: Sequence[Option], argument: str) -> Option | None:
    """The first option of a category, named whole or as a page button's custom id carries it."""
    room = LONGEST_TEXT - len(PAGE_PREFIX) - _ROOM_FOR_PAGE
    return next(
        (each for each in options if argument in (each.category, _short(each.category, room))), None
    )


def page_of(argument: str) -> tuple[str, int] | None:
    """(category, page) of what stands behind `openab:page:`; None if it is not ours."""
    category, _, page = argument.rpartition(":")
    is_number = page.isascii() and page.isdecimal() and len(page) < _ROOM_FOR_PAGE
    return (category, int(page)) if category and is_number else None


def named(option: Option, typed: str) -> Choice | None:
    """The choice that a person typed: its value, else its name, else the only one that begins so."""
    wanted = typed.strip().casefold()
    if not wanted:
        return None
    by_value = [choice for choice in option.choices if choice.value.casefold() == wanted]
    by_name = [choice for choice in option.choices if choice.name.strip().casefold() == wanted]
    begun = [choice for choice in option.choices if _begins(choice, wanted)]
    exact = by_value or by_name
    if exact:
        return exact[0]
    return begun[0] if len(begun) == 1 else None


def _begins(choice: Choice, wanted: str) -> bool:
    return choice.value.casefold().startswith(wanted) or choice.name.casefold().startswith(wanted)


def _current_first(option: Option) -> list[Choice]:
    single = {token(choice.value): choice for choice in reversed(option.choices)}
    ordered = [choice for choice in option.choices if single[token(choice.value)] is choice]
    return sorted(ordered, key=lambda choice: choice.value != option.current)


def _item(choice: Choice, current: str | None) -> MenuItem:
    label = inert_line(choice.name) or inert_line(choice.value) or _NO_NAME
    return MenuItem(
        token(choice.value),
        label,
        inert_line(choice.description),
        is_current=choice.value == current,
    )


def _placeholder(option: Option, page: int, pages: int) -> str:
    where = f" ({page + 1}/{pages})" if pages > 1 else ""
    name = (
        inert_line(option.name, LONGEST_PLACEHOLDER - len(where))
        or inert_line(option.category)
        or "Choose"
    )
    return name + where


def turners(category: str, page: int, pages: int) -> tuple[Button, ...]:
    """The buttons that lead to the pages before and behind, where there are any."""
    name = _short(category, LONGEST_TEXT - len(PAGE_PREFIX) - _ROOM_FOR_PAGE)
    targets = (("◀", page - 1), ("▶", page + 1))
    return tuple(
        Button(f"{PAGE_PREFIX}{name}:{target}", label)
        for label, target in targets
        if 0 <= target < pages
    )


def inert_line(text: str, room: int = LONGEST_TEXT) -> str:
    """On one line, without what cannot be seen alone, cut; nothing in a menu pings."""
    line = " ".join(wire_text(text).split())
    return shorten(line, room) if any(map(str.isprintable, line)) else ""


def _short(text: str, room: int) -> str:
    if text.strip() == text and text.isprintable() and 0 < units(text) <= room:
        return text
    return "~" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
