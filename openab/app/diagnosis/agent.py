"""Is the agent found, does it speak ACP, and is it logged in?"""

from dataclasses import dataclass

from openab.agents.acp.session import AcpSession
from openab.agents.limits import Sizes, Timeouts
from openab.app.diagnosis.remedies import FAILURES
from openab.app.diagnosis.report import Found, failure, well
from openab.domain.agent_events import AgentFailure
from openab.ports.agent import AgentRefused, AgentSpec, AgentUnavailable


@dataclass(frozen=True, slots=True)
class AgentTried:
    """What came of opening a session: a name and version, or a failure."""

    failure: AgentFailure | None
    name: str = ""
    version: str = ""


async def try_agent(spec: AgentSpec, timeouts: Timeouts | None = None) -> AgentTried:
    """Start it, say hello, open a session (only then a missing login shows), end it. Never raises
    for anything an agent does."""
    session = AcpSession(spec, {}, timeouts or Timeouts(), Sizes())
    try:
        opened = await session.open(None)
    except (AgentRefused, AgentUnavailable) as error:
        return AgentTried(error.failure)
    await session.end()
    return AgentTried(None, opened.agent_name, opened.agent_version)


async def agent(spec: AgentSpec, timeouts: Timeouts | None = None, section: str = "agent") -> Found:
    """The same as a line of a report; `section` is where the configuration has it."""
    tried = await try_agent(spec, timeouts)
    command = " ".join((spec.command, *spec.args))
    if tried.failure is None:
        named = f"{tried.name or 'an agent'} {tried.version}".strip()
        return well(section, f"{command} answers as {named} and opens a session")
    remedy = FAILURES[tried.failure.kind].replace("[agent]", f"[{section}]")
    return failure(section, f"{command}: {told(tried.failure)}", remedy)


def told(failed: AgentFailure) -> str:
    """A failure in one line, with the last line that the agent wrote."""
    lines = failed.stderr_tail.strip().splitlines()
    message = failed.message or failed.kind.value.replace("_", " ")
    return f"{message}; it wrote last: {lines[-1]}" if lines else message
