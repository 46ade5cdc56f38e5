"""What people read in answer to a command: what was done, what is chosen, used or open here.

Names come from outside: they are put on one line, cut short and made inert here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from openab.domain.agent_events import UsageChanged
from openab.domain.options import Choice, Option, by_choice
from openab.text.measure import shorten, units
from openab.text.menus import inert_line
from openab.text.neutralize import neutralize

#: What a message may hold, less the sign before a notice.
_ROOM = 1900
_LONGEST_NAME = 60
_LONGEST_REASON = 300


def nothing_to_reset() -> str:
    """A reset where nobody has asked anything yet."""
    return "Nothing to reset: no session has begun here. Mention the bot to begin one."


def reset_done(*, waiting: int, is_running: bool) -> str:
    """The session is at its end; the next message begins another."""
    stopped = " The running request is stopped." if is_running else ""
    taken = f" {_requests(waiting)} that waited {_was(waiting)} taken back." if waiting else ""
    return f"🧹 Reset: the agent has forgotten this conversation.{stopped}{taken} Your next message begins anew."


def reset_not_yours() -> str:
    """A reset by somebody who has asked nothing here."""
    return "⛔ Only somebody who has asked here before, or an operator, can reset this session."


def reset_holds_others(name: str) -> str:
    """A reset would end what somebody else has asked."""
    return f"⛔ A request of {_name(name)} is running or waiting here: only an operator can reset now. `/cancel-all` takes yours back."


def cancelled_all(*, waiting: int, is_running: bool, of_others: int) -> str:
    """Everything that the asker may cancel is cancelled, or is going to be."""
    if not waiting and not is_running and not of_others:
        return "Nothing to cancel: no request is running or waiting here."
    done = [
        *(["the running request ends within seconds"] if is_running else []),
        *([f"{_requests(waiting)} that waited {_was(waiting)} taken back"] if waiting else []),
    ]
    told = f"🛑 Cancelled: {' and '.join(done)}." if done else "⛔ Nothing here is yours to cancel."
    left = f" {_requests(of_others)} of others {_stays(of_others)}: an operator can cancel them."
    return told + (left if of_others else "")


def done_before() -> str:
    """The same press or command came a second time."""
    return "This was done before: nothing to do."


def not_in_use() -> str:
    """A button or menu of a former version, or of a message that is out of date."""
    return "This is not in use any more. Use the command again."


def option_menu(option: Option, *, is_running: bool) -> str:
    """Above a menu: what is chosen now."""
    later = " A pick counts from the next request on." if is_running else ""
    return f"**{_name(option.name)}**: {_current(option)}.{later}"


def option_list(option: Option, word: str) -> str:
    """The same where there is no menu; `word` is the text command."""
    names = [_chosen(choice) for choice in option.choices]
    head = f"**{_name(option.name)}**: {_current(option)}. `{word} NAME` chooses one of: "
    return head + _fitting(names, _ROOM - units(head), f"more; `/{word[1:]}` shows all")


def no_options(what: str) -> str:
    """The agent has not said that anything of this kind can be chosen."""
    return f"There is no {what} to choose here: either the agent offers none, or no request has started it yet. Mention the bot first."


def option_switched(option: Option, choice: Choice) -> str:
    """The agent has taken the value."""
    return f"✅ {_name(option.name)}: {_chosen(choice)}."


def option_kept(option: Option, choice: Choice) -> str:
    """The value is kept until the agent is prompted again."""
    return f"✅ {_name(option.name)}: {_chosen(choice)}, from the next request on."


def option_refused(name: str, value: str, reason: str) -> str:
    """The agent does not take the value."""
    why = neutralize(inert_line(reason, _LONGEST_REASON)).rstrip(".") or "no reason was given"
    return f"❌ {_name(name)} stays as it was: the agent refuses {_code(value)}: {why}. Choose another."


def option_unknown(option: Option, typed: str, word: str) -> str:
    """Nothing, or more than one thing, is called so."""
    return f"❌ No single choice of {_name(option.name)} is called {_code(typed)}. `{word}` lists them."


def option_gone() -> str:
    """The pick is of a menu that is out of date."""
    return "❌ This is not offered any more. Here is what is."


def option_not_yours() -> str:
    """A pick by somebody who has asked nothing here."""
    return "⛔ Only somebody who has asked here before, or an operator, can choose this."


@dataclass(frozen=True, slots=True)
class UsageTold:
    """What is known of a session's cost."""

    reported: UsageChanged | None
    turns: int
    time: timedelta
    since: datetime


def usage(told: UsageTold) -> str:
    """Tokens and cost as the agent says, requests and time as we have counted."""
    lines = [
        _tokens(told.reported),
        f"{_requests(told.turns)}, {_duration(told.time)} of the agent's time, since {_moment(told.since, 'f')}",
    ]
    return "\n".join(f"📊 {line}" if number == 0 else line for number, line in enumerate(lines))


def no_session() -> str:
    """Nobody has asked anything here."""
    return "No session has begun here. Mention the bot to begin one."


@dataclass(frozen=True, slots=True)
class SessionTold:
    """A line of the list of sessions."""

    conversation_id: str
    agent: str
    is_running: bool
    waiting: int
    last_activity_at: datetime


def session_list(told: Sequence[SessionTold], *, first: int, total: int) -> str:
    """A page of the sessions, each with a link, its state and its age."""
    if not told:
        return "No sessions yet. Mention the bot in a channel to begin one."
    head = f"🧵 Sessions {first + 1} to {first + len(told)} of {total}"
    return shorten("\n".join([head, *map(_session_line, told)]), _ROOM)


def _session_line(told: SessionTold) -> str:
    state = "working" if told.is_running else "idle"
    waiting = f", {told.waiting} waiting" if told.waiting else ""
    age = _moment(told.last_activity_at, "R")
    return f"• <#{told.conversation_id}> · {_name(told.agent)} · {state}{waiting} · {age}"


def _tokens(reported: UsageChanged | None) -> str:
    if reported is None:
        return "The agent has not said yet what it uses"
    share = f" ({reported.used * 100 // reported.size} %)" if reported.size else ""
    cost = (
        "" if reported.cost is None else f", cost {reported.cost:,.2f} {_word(reported.currency)}"
    )
    return f"{reported.used:,} of {reported.size:,} tokens of context used{share}{cost}".rstrip()


def _fitting(names: Sequence[str], room: int, rest: str) -> str:
    """As many names as there is room for, and how many more there are."""
    shown: list[str] = []
    for number, name in enumerate(names):
        left = len(names) - number - 1
        more = f" … and {left} {rest}" if left else ""
        if units(", ".join([*shown, name]) + more) > room:
            return ", ".join(shown) + f" … and {left + 1} {rest}"
        shown.append(name)
    return ", ".join(shown)


def _current(option: Option) -> str:
    found = by_choice(option, option.current)
    return _chosen(found) if found else "not told by the agent"


def _chosen(choice: Choice) -> str:
    return _code(choice.name) if inert_line(choice.name, _LONGEST_NAME) else _code(choice.value)


def _code(text: str) -> str:
    return f"`{_name(text)}`"


def _name(name: str) -> str:
    return neutralize(inert_line(name, _LONGEST_NAME).replace("`", "'")) or "(no name)"


def _word(text: str) -> str:
    return neutralize(inert_line(text, 8))


def _requests(count: int) -> str:
    return f"{count} request" if count == 1 else f"{count} requests"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _stays(count: int) -> str:
    return "stays" if count == 1 else "stay"


def _duration(time: timedelta) -> str:
    minutes, seconds = divmod(int(time.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {seconds:02}s" if minutes else f"{seconds}s"


def _moment(at: datetime, style: str) -> str:
    return f"<t:{int(at.timestamp())}:{style}>"
