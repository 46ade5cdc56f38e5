"""Is this an agent that we can use? Starts it, says hello, ends it."""

from collections.abc import Mapping
from dataclasses import dataclass

from openab.agents.acp.session import AcpSession
from openab.agents.limits import Sizes, Timeouts
from openab.domain.agent_events import AgentFailure
from openab.ports.agent import AgentRefused, AgentSpec, AgentUnavailable


@dataclass(frozen=True, slots=True)
class AgentChecked:
    """What came of it; `failure` is None for an agent that answered `initialize` well."""

    failure: AgentFailure | None
    agent_name: str = ""
    agent_version: str = ""
    can_load: bool = False
    can_resume: bool = False
    #: Names of the agent's login methods; having some does not mean that a login is missing.
    auth_methods: tuple[str, ...] = ()


async def check_agent(
    spec: AgentSpec, timeouts: Timeouts | None = None, *, markers: Mapping[str, str] | None = None
) -> AgentChecked:
    """Never raises for anything an agent does; nothing of it is left afterwards.

    `markers` name the owner, so that the next start can end what a killed process left of it.
    """
    session = AcpSession(spec, markers or {}, timeouts or Timeouts(), Sizes())
    try:
        able = (await session.initialize()).abilities
    except (AgentRefused, AgentUnavailable) as error:
        return AgentChecked(error.failure)
    finally:
        await session.end()
    return AgentChecked(
        failure=None,
        agent_name=able.name,
        agent_version=able.version,
        can_load=able.can_load,
        can_resume=able.can_resume,
        auth_methods=able.auth_methods,
    )
