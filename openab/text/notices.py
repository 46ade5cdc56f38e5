"""Every notice the bot says: what happened and what to do, without the presentation prefix.

Names and reasons come from outside: they are put on one line, cut short and made inert here.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from openab.domain.agent_events import AgentFailure, FailureKind, HostNotice, PromptEnded
from openab.text.errors import error_title, remedy
from openab.text.measure import fit_back, shorten
from openab.text.neutralize import neutralize

_LONGEST_NAME = 60
_LONGEST_REASON = 300
_LONGEST_TAIL = 700
_LONGEST_EXPLANATION = 900
_MOST_NAMES = 10
_MOST_CALLS = 3
_TAIL_LINES = 8
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def starting() -> str:
    """The placeholder before anything is known of the turn."""
    return "⏳ starting"


def still_working() -> str:
    """What takes the place of a placeholder that is too old to be edited much longer."""
    return "⏳ still working"


def not_ready() -> str:
    """A command that came before the broker could look anything up."""
    return "⏳ openab is starting. Try again in a moment."


def queued_behind(count: int) -> str:
    """The message was taken while `count` turns are before it."""
    return f"📥 Queued behind {count}: it is answered next in line. `/cancel` stops what runs now."


def all_busy(agents: int) -> str:
    """A turn is next in its conversation, but no further agent may be started now."""
    busy = "The only agent is busy" if agents == 1 else f"All {agents} agents are busy"
    return f"⏳ {busy}; waiting for a place. It begins by itself when one is free."


def interrupted_by_restart() -> str:
    """The turn was cut off because the broker was started anew."""
    return (
        "⚠️ Interrupted by a restart: what came so far stands here. Send the request again to go on."
    )


def went_on_after_restart() -> str:
    """Stands between what was said before a restart and what was said after it."""
    return "🔄 *Interrupted by a restart here; the agent went on.*"


def given_up(attempts: int) -> str:
    """A turn was lost as often as it may be tried, as its failure tells it."""
    times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    return (
        f"Given up after {times}: each ended with a restart of the bot. What came so far stands here. "
        "If this request itself brings the bot down, change it before you send it again."
    )


def asked_whether_to_go_on(unfinished: Sequence[str]) -> str:
    """A restart interrupted a turn; buttons stand below. `unfinished`: what was under way."""
    shown = ", ".join(f"`{_line(title)}`" for title in unfinished[:_MOST_CALLS])
    more = len(unfinished) - _MOST_CALLS
    also = f" and {more} more" if more > 0 else ""
    cause = f" while {shown}{also} was under way" if shown else ""
    return (
        f"❓ A restart interrupted this request{cause}. Is the agent to go on? It is told what it had "
        "begun. `/continue` and `/cancel` do the same as the buttons."
    )


def nobody_said_to_go_on(hours: int) -> str:
    """The question whether to go on was not answered in time."""
    return (
        f"⚠️ Interrupted by a restart, and nobody said within {hours} hours whether to go on: "
        "what came so far stands here. Send the request again to go on."
    )


def going_on() -> str:
    """Whoever said that an interrupted request goes on is told."""
    return "🔄 It goes on."


def nothing_to_continue() -> str:
    """Nothing here waits for somebody to say that it goes on."""
    return "Nothing to continue: no interrupted request waits for an answer here."


def not_yours_to_continue(requester: str) -> str:
    """Somebody else wanted an interrupted request to go on."""
    return f"⛔ Only {_name(requester)}, who asked, or an operator can have this continued."


def recovering() -> str:
    """The placeholder of a turn that a restart interrupted."""
    return "🔄 recovering: a restart interrupted this request"


def cancelled_by(name: str) -> str:
    """Somebody ended the running turn."""
    return f"🛑 Cancelled by {_name(name)}. The answer up to there is kept."


def newer_message(name: str) -> str:
    """Who cancelled a turn, where a message did that (see `cancelled_by`)."""
    return f"a newer message of {name}"


def cancelled_before_start(name: str) -> str:
    """Somebody took a waiting turn back."""
    return f"🛑 Cancelled by {_name(name)} before it started: the agent never saw it."


def cancelling(name: str) -> str:
    """The answer to a cancel command that was passed on."""
    return f"🛑 {_name(name)} asked the agent to stop; it ends within seconds."


def nothing_to_cancel() -> str:
    """A cancel where nothing runs or waits."""
    return "Nothing to cancel: no request is running or waiting here."


def not_yours_to_cancel(requester: str) -> str:
    """A cancel by somebody who may not."""
    return f"⛔ Only {_name(requester)}, who asked, or an operator can cancel this."


def not_allowed_here() -> str:
    """A command by somebody, or in a place, that the allow-lists do not admit."""
    return "⛔ You may not use this here."


def bot_turn_limit(turns: int, limit: int) -> str:
    """Bots have talked to each other often enough; OpenAB says it in the same words."""
    if turns < limit:
        return f"🛑 Hard bot turn limit reached ({turns}). A human must reply to continue."
    return (
        f"⚠️ Bot turn limit reached ({turns}/{limit}). A human must reply in this thread to "
        "continue bot-to-bot conversation."
    )


def is_bot_turn_limit(content: str) -> bool:
    """Whether a message is such a warning, of ours or of OpenAB's."""
    told = content.removeprefix("-# ")
    return told.startswith(("⚠️ Bot turn limit reached", "🛑 Hard bot turn limit reached"))


def permission_asked(title: str, kind: str, left_out: int = 0) -> str:
    """The agent waits for a yes or no; buttons stand below, but for so many of its options."""
    wanted = shorten(_one_line(title), _LONGEST_REASON)
    told = f"`{wanted}`" if wanted else "something without a name"
    asks = f"🔐 The agent asks for permission ({_name(kind)}): {told}"
    if not left_out:
        return asks
    return f"{asks}\nThere is no room for {left_out} more of its options; cancel if you want one of them."


def permission_answered() -> str:
    """What the person who pressed a permission's button is told."""
    return "🔐 Passed on to the agent."


def permission_closed() -> str:
    """The question was answered or cancelled before."""
    return "This question is not open any more: nothing to do."


def permission_not_yours(requester: str) -> str:
    """Somebody else pressed; an empty allow-list lets nobody approve tools."""
    return f"⛔ Only {_name(requester)}, who asked, or an operator can answer this."


def hard_timeout_near(minutes: int) -> str:
    """The turn is going to be stopped soon."""
    unit = "minute" if minutes == 1 else "minutes"
    return f"⏰ This request is stopped in {minutes} {unit} (`prompt_hard_timeout_secs`)."


def host_notice(notice: HostNotice) -> str:
    """What the agent's host has to say in mid-turn."""
    if notice.code == "hard_timeout_near":
        return hard_timeout_near(notice.minutes)
    return f"ℹ️ The agent's host reports: {_line(notice.code.replace('_', ' '))}."  # noqa: RUF001  the sign is meant


def thread_not_opened(reason: str) -> str:
    """No thread could be made, so the request was not given to the agent."""
    return f"⚠️ No thread could be opened: {_line(reason)}. The request was not started; ask again once that is fixed."


def waiting_for_discord(until: datetime) -> str:
    """Discord told us to wait; the time is shown in the reader's own zone."""
    return f"⏳ Discord asks us to wait until <t:{int(until.timestamp())}:T>; it goes on by itself."


def messages_skipped(count: int, since: datetime) -> str:
    """So much was said here while nobody listened, and is too old or too much to be answered now."""
    what = "1 message was" if count == 1 else f"{count} messages were"
    return (
        f"⏭️ openab was away. {what} sent here since <t:{int(since.timestamp())}:f> that it does not "
        "answer any more. Send again what is still wanted."
    )


def part_lost(number: int, total: int, reason: str = "") -> str:
    """Names the gap that a part left which could not be delivered."""
    cause = f" ({_line(reason)})" if reason else ""
    return f"⚠️ Part {number} of {total} of this answer could not be delivered{cause}. It is kept and can be sent again."


def answer_undelivered(reason: str) -> str:
    """Nothing of the answer could be delivered."""
    return (
        f"⚠️ The answer could not be delivered: {_line(reason)}. It is kept and can be sent again."
    )


def left_out(left: int, total: int) -> str:
    """The answer is longer than anybody is sent; stands at its end."""
    return (
        f"✂️ The answer goes on: about {left:,} of its {total:,} characters are left out here. The whole "
        "of it is kept; ask for the part you need, or have it written to a file."
    )


def delivery_unclear() -> str:
    """Nobody can tell whether a message of the answer arrived; a button stands below."""
    return "⚠️ It is unclear whether a part of this answer was posted; it was not sent twice. If it is missing, have it sent again."


def sent_again(parts: int) -> str:
    """What was asked to be sent again is on its way."""
    return "📤 It is sent again." if parts == 1 else f"📤 {parts} messages are sent again."


def sent_again_before() -> str:
    """Somebody had that sent again already."""
    return "It was sent again before: nothing to do."


def nothing_to_send_again() -> str:
    """It is not there, or it is no message that could not be delivered."""
    return "Nothing to send again: that is not, or no more, a message that could not be delivered."


def not_yours_to_send_again(requester: str) -> str:
    """Somebody else wanted a message to be sent again."""
    return f"⛔ Only {_name(requester)}, who asked, or an operator can have this sent again."


def thread_unclear() -> str:
    """Why a thread is not used: its opening may or may not have been carried out."""
    return "it is unclear whether Discord opened it"


def not_stored() -> str:
    """The database refused what the turn left, for good."""
    return "⚠️ This request ended because its rows could not be stored. The log says why."


def context_lost() -> str:
    """The agent's own memory is gone; it was given the transcript instead."""
    return "⚠️ The agent's session could not be restored: it starts anew with a transcript of this conversation."


def no_response() -> str:
    """The agent ended well without a word."""
    return "⚠️ The agent ended its turn without any text. Ask again, or look at the agent's own log."


def no_tokens() -> str:
    """The agent ended well, but its model wrote nothing at all."""
    return (
        "⚠️ The agent ended its turn without a word: its model produced 0 tokens. "
        "Most likely its login or API key is wrong, its quota is used up, or its model is not available. "
        "Check these, then ask again."
    )


def empty_answer(end: PromptEnded | None) -> str:
    """Why a turn that ended well has no text, as far as its end tells."""
    if end is None:
        return no_response()
    if end.output_tokens == 0:
        return no_tokens()
    return _EMPTY_BY_STOP_REASON.get(end.stop_reason or "", no_response())


_EMPTY_BY_STOP_REASON = {
    "refusal": "⚠️ The agent refused this request without saying why. Change the request.",
    "max_tokens": "⚠️ The agent reached its token limit before it wrote any text. Ask for a smaller step.",
    "max_turn_requests": "⚠️ The agent used up its requests for one turn before it wrote any text. Ask it to go on.",
}


def agent_failed(failure: AgentFailure) -> str:
    """The agent could not do its part: why, what to do, and the end of what it wrote to stderr."""
    return _SENTENCES[failure.kind](failure) + _tail(failure.stderr_tail)


def not_configured_any_more(agent: str) -> str:
    """Why nobody can answer, as an agent's failure tells it."""
    return f"the agent {agent!r} is not configured any more: write [agents.{agent}] for it"


def workspace_refused(fault: str, alias: str, detail: str, known: Sequence[str]) -> str:
    """Why a session has no folder to work in, as an agent's failure tells it; `fault` is the port's word."""
    who = f"The workspace {_name(alias)}" if alias else "The agent's working_dir"
    names = ", ".join(f"@{_name(name)}" for name in known[:_MOST_NAMES]) or "none"
    why = _WORKSPACE_FAULTS.get(fault, _WORKSPACE_FAULTS["git"])
    told = why.format(who=who, alias=_name(alias), known=names, detail=_line(detail))
    return f"{told} The request was not started."


_WORKSPACE_FAULTS = {
    "unknown": "There is no workspace {alias} here. Known are: {known}. Ask again with one of them, or with none for the usual folder.",
    "missing": "{who} leads to no folder: {detail}. Ask again without it, or have the folder made.",
    "outside_home": "{who} leads out of the home folder, where nobody is sent. Ask again without it.",
    "not_a_repository": "A thread gets a worktree of its own here, but the folder is no Git repository: {detail}. Make it one, or change [workspace] per_thread.",
    "no_commit": "A thread gets a worktree of its own here, but the repository {detail} has no commit yet. Commit something first.",
    "no_git": "A thread gets a worktree of its own here, but git is not installed on the bot's machine. Install it.",
    "git": "No worktree could be made for this thread: {detail}. Ask again once that is mended.",
    "taken": "No worktree could be made for this thread: {detail} is in the way. Move it, and ask again.",
    "busy": "The worktree of this thread is still being made. Ask again in a moment.",
}


def work_left(files: int, commits: int) -> str:
    """A new session goes on in a folder that holds a former one's work."""
    uncommitted = f"{files} uncommitted {'file' if files == 1 else 'files'}" if files else ""
    elsewhere = f"{commits} {'commit' if commits == 1 else 'commits'} found nowhere else"
    what = " and ".join(filter(None, (uncommitted, elsewhere if commits else "")))
    return (
        f"\u2139\ufe0f This thread's worktree was kept: it holds {what or 'what git will not remove'}. "
        "This session goes on in it."
    )


def _workspace(failure: AgentFailure) -> str:
    return f"📁 {shorten(_one_line(failure.message), _LONGEST_EXPLANATION)}"


def _lost(failure: AgentFailure) -> str:
    return f"⚠️ {shorten(_one_line(failure.message), _LONGEST_EXPLANATION)}"


def _not_found(failure: AgentFailure) -> str:
    return f"❌ The agent could not be started: {_line(failure.message)}. Check `[agent] command`; `openab doctor` tries it."


def _not_configured(failure: AgentFailure) -> str:
    return f"❌ Nobody can answer here: {_line(failure.message)}, or `/unfocus`, so that this conversation talks to its own session again."


def _not_acp(failure: AgentFailure) -> str:
    return f"❌ The agent's command does not speak ACP: {_line(failure.message)}. Check `[agent] command` and `args`."


def _setup_timeout(failure: AgentFailure) -> str:
    return f"❌ The agent did not answer while it was set up: {_line(failure.message)}. Ask again; if it stays so, try `openab doctor`."


def _auth_required(failure: AgentFailure) -> str:
    methods = ", ".join(_name(method) for method in failure.auth_methods[:5])
    offered = f" It offers: {methods}." if methods else ""
    return f"🔑 The agent wants a login first.{offered} Log it in on the machine of the bot, then ask again."


def _error(failure: AgentFailure) -> str:
    said = f"{error_title(failure.code)}: {_line(failure.message)}"
    return f"❌ The agent answered with an error. {said}. {remedy(failure.code)}"


def _exited(failure: AgentFailure) -> str:
    return f"❌ The agent's process ended unexpectedly{_exit(failure.exit_code)}. The next message starts it again."


def _transport(failure: AgentFailure) -> str:
    return f"❌ The connection to the agent broke: {_line(failure.message)}. The next message starts it again."


def _hard_timeout(failure: AgentFailure) -> str:
    return f"⏰ The request ran too long and was stopped: {_line(failure.message)}. Ask for a smaller step, or raise `prompt_hard_timeout_secs`."


def _output_too_large(failure: AgentFailure) -> str:
    return f"❌ The agent's output was too large: {_line(failure.message)}. Ask for less at once."


_SENTENCES = {
    FailureKind.NOT_FOUND: _not_found,
    FailureKind.NOT_CONFIGURED: _not_configured,
    FailureKind.NOT_ACP: _not_acp,
    FailureKind.SETUP_TIMEOUT: _setup_timeout,
    FailureKind.AUTH_REQUIRED: _auth_required,
    FailureKind.ERROR: _error,
    FailureKind.EXITED: _exited,
    FailureKind.TRANSPORT: _transport,
    FailureKind.HARD_TIMEOUT: _hard_timeout,
    FailureKind.OUTPUT_TOO_LARGE: _output_too_large,
    FailureKind.WORKSPACE: _workspace,
    FailureKind.LOST: _lost,
}


def _exit(code: int | None) -> str:
    if code is None:
        return ""
    return f" (signal {-code})" if code < 0 else f" (exit code {code})"


def _name(name: str) -> str:
    return shorten(_one_line(name), _LONGEST_NAME) or "somebody"


def _line(text: str) -> str:
    return shorten(_one_line(text), _LONGEST_REASON).rstrip(".") or "no reason was given"


def _one_line(text: str) -> str:
    bare = " ".join(_plain(text).split())
    return neutralize(bare.replace("`", "'"))


def _plain(text: str) -> str:
    return _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text).replace("\r", "\n"))


def _tail(stderr: str) -> str:
    """The last lines in a code block, which nothing in them can close."""
    lines = [line.rstrip() for line in _plain(stderr).split("\n") if line.strip()]
    text = neutralize("\n".join(lines[-_TAIL_LINES:]).replace("```", "'''"))
    text = text[fit_back(text, _LONGEST_TAIL) :]
    return f"\n```\n{text}\n```" if text.strip() else ""
