"""The whole configuration as one immutable value."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator

from openab.config.agent import (
    Agent,
    AgentHost,
    AgentName,
    Handoff,
    NamedAgent,
    Permissions,
    Pool,
    Recovery,
    Workspace,
)
from openab.config.discord import Discord
from openab.config.fields import freeze, ours, theirs
from openab.config.secret import Secret
from openab.config.serving import (
    Cluster,
    Cron,
    Database,
    Http,
    Markdown,
    Presentation,
    Reactions,
    Stt,
)
from openab.config.unserved import Unserved

Agents = Annotated[Mapping[AgentName, NamedAgent], AfterValidator(freeze)]


class Config(Unserved):
    """Everything the file says, checked and normalised. A reload makes another one."""

    discord: Discord = theirs(..., "")
    agent: Agent = theirs({}, "")
    agents: Agents = ours({}, "")
    pool: Pool = theirs({}, "")
    workspace: Workspace = theirs({}, "")
    permissions: Permissions = ours({}, "")
    presentation: Presentation = ours({}, "")
    reactions: Reactions = theirs({}, "")
    markdown: Markdown = theirs({}, "")
    cron: Cron = theirs({}, "")
    stt: Stt = theirs({}, "")
    database: Database = ours({}, "")
    handoff: Handoff = ours({}, "")
    recovery: Recovery = ours({}, "")
    cluster: Cluster = ours({}, "")
    agent_host: AgentHost = ours({}, "")
    http: Http = ours({}, "")

    def agent_variables(self) -> Iterator[tuple[str, Secret]]:
        """What any agent is given for its environment; most of it is secret."""
        for agent in (self.agent, *self.agents.values()):
            yield from agent.env.items()
