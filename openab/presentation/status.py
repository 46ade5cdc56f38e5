"""The status line: how long, what is going on, who works."""

from dataclasses import dataclass

from openab.domain.outbound import PRESENTATION_PREFIX
from openab.ports.feed import Phase
from openab.presentation.transcript import TurnView
from openab.text.measure import shorten
from openab.text.tools import asked_title

_LONGEST_DETAIL = 80
_LONGEST_NAME = 40
#: Silence is told from here on; agents often think for half a minute.
_QUIET_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of a turn apart from its events, at one moment."""

    phase: Phase
    detail: str = ""
    agent_name: str = ""
    elapsed_seconds: float = 0.0
    #: Since the last sign of life.
    quiet_seconds: float = 0.0
    #: The sub-agents that work for the session now.
    sub_agents: tuple[str, ...] = ()


def status_line(view: TurnView, moment: Moment) -> str:
    """`-# ⏳ 2m 10s · running cargo test · Sol working`, on one line; not neutralised."""
    icon, activity, doing = _activity(view, moment)
    parts = [
        f"{icon} {duration(moment.elapsed_seconds)}",
        activity,
        *_extras(view, moment),
        f"{_bare(moment.agent_name, _LONGEST_NAME)} {doing}".strip(),
    ]
    return PRESENTATION_PREFIX + " · ".join(part for part in parts if part)


def duration(seconds: float) -> str:
    """`42s`, `2m 10s`, `1h 05m 09s`: seconds always, so that every heartbeat is a visible change."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    if minutes >= 60:
        return f"{minutes // 60}h {minutes % 60:02}m {rest:02}s"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest}s"


def _activity(view: TurnView, moment: Moment) -> tuple[str, str, str]:
    detail = _bare(moment.detail)
    match moment.phase:
        case Phase.QUEUED:
            return "📥", f"queued behind {detail}" if detail.isdigit() else "queued", "waiting"
        case Phase.STARTING:
            return "⏳", "starting", ""
        case Phase.CANCELLING:
            return "🛑", f"cancelling for {detail}" if detail else "cancelling", "stopping"
        case Phase.RECOVERING:
            return "🔄", detail or "recovering", ""
        case Phase.SHORTENING:
            return "✂️", "answered; shortening its hand-off", "working"
        case Phase.WAITING_DISCORD:
            return "⏳", f"waiting for Discord {detail}".strip(), ""
        case Phase.UNREACHABLE:
            return "📡", f"machine {detail} out of reach" if detail else "machine out of reach", ""
        case Phase.WAITING_PERMISSION | Phase.WORKING:
            return _work(view, moment, detail)


def _work(view: TurnView, moment: Moment, detail: str) -> tuple[str, str, str]:
    for question in view.permissions.values():
        title = _bare(asked_title(question) or detail)
        return "🔐", f"waiting for permission: {title}".rstrip(": "), "waiting"
    if moment.phase is Phase.WAITING_PERMISSION:
        return "🔐", f"waiting for permission: {detail}".rstrip(": "), "waiting"
    if running := view.tools.running:
        return "⏳", f"running {_bare(running.label)}", "working"
    if view.is_thinking:
        return "⏳", "thinking", "working"
    return "⏳", "writing" if view.is_writing else detail, "working"


def _extras(view: TurnView, moment: Moment) -> list[str]:
    extras = []
    if view.plan:
        done = sum(entry.status == "completed" for entry in view.plan)
        extras.append(f"plan {done}/{len(view.plan)}")
    if moment.sub_agents:
        extras.append(f"🧵 {_bare(', '.join(moment.sub_agents))} at work")
    if moment.phase is Phase.WORKING and moment.quiet_seconds >= _QUIET_SECONDS:
        extras.append(f"quiet for {duration(moment.quiet_seconds)}")
    if view.notice and view.notice.code == "hard_timeout_near":
        extras.append("⏰ hard time-out near")
    return extras


def _bare(text: str, longest: int = _LONGEST_DETAIL) -> str:
    return shorten(" ".join(text.replace("`", "'").split()), longest)
