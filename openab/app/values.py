"""From the configuration file to the few values that each part needs."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
from rich.emoji import Emoji

from openab.agents.environment import agent_environment
from openab.agents.workspaces import LocalWorkspaces
from openab.config.agent import Agent
from openab.config.models import Config
from openab.config.paths import expand_home, openab_home, user_home
from openab.control.settings import (
    BindingSettings,
    PoolSettings,
    ReactionSettings,
    RecoverySettings,
    ReplySettings,
    Settings,
    WorkspaceSettings,
)
from openab.domain.batching import Batching, DispatchMode, OnBusy
from openab.domain.binding import Limits
from openab.domain.gates import BotMode, GatePolicy, UserMode, plain_emoji
from openab.domain.ids import AccountId, ChannelName, ConversationRef, WorkerId
from openab.domain.recovery import RecoveryPolicy
from openab.domain.spawn import SpawnLimits
from openab.ports.agent import AgentSpec
from openab.presentation.reactions import ReactionTiming
from openab.presentation.settings import PresentationSettings
from openab.text.tables import TableStyle
from openab.text.tools import ToolDisplay

DISCORD = ChannelName("discord")
log = structlog.get_logger()


class Live:
    """The configuration in use; a reload replaces it as a whole."""

    def __init__(
        self,
        config: Config,
        account: AccountId,
        environ: Mapping[str, str],
        redact: Callable[[str], str] = str,
    ) -> None:
        self.config = config
        #: Takes known secrets out of a text.
        self.redact = redact
        self._account = account
        self.environ = environ

    def policy(self) -> GatePolicy:
        """What the gates need."""
        discord = self.config.discord
        return GatePolicy(
            account=self._account,
            allowed_channels=discord.channels,
            allowed_users=discord.users,
            bot_mode=BotMode(discord.allow_bot_messages.value),
            trusted_bots=frozenset(discord.trusted_bot_ids),
            allow_dm=discord.allow_dm,
            user_mode=UserMode(discord.allow_user_messages.value),
            own_roles=frozenset(discord.allowed_role_ids),
            peer_roles=frozenset(discord.peer_agent_role_ids),
            max_bot_turns=discord.max_bot_turns,
        )

    def operators(self) -> frozenset[str]:
        """Who may cancel for others."""
        return frozenset(self.config.discord.operators)

    def mode(self, ref: ConversationRef, has_other_bot: bool) -> str:  # noqa: FBT001 - a callable value's signature
        """How much of a turn is shown in this conversation."""
        return self.config.presentation.mode_in(
            ref.conversation_id, ref.parent_conversation_id, with_other_bots=has_other_bot
        ).value

    def replies(self) -> ReplySettings:
        """How final answers are delivered."""
        shown = self.config.presentation
        return ReplySettings(
            final=shown.final.value,
            ping_requester=shown.ping_requester,
            tool_display=ToolDisplay(self.config.reactions.tool_display.value),
            tables=TableStyle(self.config.markdown.tables.value),
            narration=self.config.reactions.narration_display,
        )

    def agent(self) -> AgentSpec:
        """How the default agent is started."""
        return agent_spec(self.config, self.environ)

    def named_agents(self) -> Mapping[str, AgentSpec]:
        """How the others are started."""
        return named_agent_specs(self.config, self.environ)


def agent_spec(config: Config, environ: Mapping[str, str]) -> AgentSpec:
    """The default agent, with its complete environment."""
    return _spec(config, environ, config.agent, Path(config.agent.command).name)


def named_agent_specs(config: Config, environ: Mapping[str, str]) -> Mapping[str, AgentSpec]:
    """The further agents, each under the name that it is configured by."""
    return {name: _spec(config, environ, agent, name) for name, agent in config.agents.items()}


def _spec(config: Config, environ: Mapping[str, str], agent: Agent, name: str) -> AgentSpec:
    explicit = {name: value.reveal() for name, value in agent.env.items()}
    return AgentSpec(
        name=name,
        command=agent.command,
        args=tuple(agent.args),
        working_dir=agent.working_dir,
        env=agent_environment(environ, explicit, agent.inherit_env),
        hard_timeout_seconds=config.pool.prompt_hard_timeout.total_seconds(),
        permission_mode=config.permissions.mode.value,
        default_config_options=dict(config.pool.default_config_options),
    )


def settings(live: Live, account: AccountId, worker: WorkerId, proof: str) -> Settings:
    """What the control plane is told."""
    config = live.config
    reactions, cluster = config.reactions, config.cluster
    return Settings(
        channel=DISCORD,
        account=account,
        worker=worker,
        proof=proof,
        policy=live.policy,
        agent=live.agent,
        named_agents=live.named_agents,
        mode=live.mode,
        operators=live.operators,
        announces_handoffs=config.handoff.announce,
        redact=live.redact,
        reaction_mapping=reaction_mapping(config),
        batching=Batching(
            DispatchMode(config.discord.message_processing_mode.value),
            config.discord.max_buffered_messages,
            config.discord.max_batch_tokens,
        ),
        on_busy=OnBusy(config.pool.on_busy.value),
        backfill=config.discord.backfill,
        pool=PoolSettings(
            config.pool.max_sessions, config.pool.session_ttl, config.pool.hung_grace
        ),
        replies=live.replies,
        reactions=ReactionSettings(
            enabled=reactions.enabled,
            remove_after_reply=reactions.remove_after_reply,
            mood_face=reactions.mood_face,
            emojis=reactions.emojis.value,
            done_hold=reactions.timing.done_hold,
            error_hold=reactions.timing.error_hold,
        ),
        workspace=WorkspaceSettings(
            aliases={
                name: str(_in_home(folder, live.environ))
                for name, folder in config.workspace.aliases.items()
            },
            per_thread=config.workspace.per_thread.value,
        ),
        recovery=RecoverySettings(
            RecoveryPolicy(config.recovery.policy.value), config.recovery.max_attempts
        ),
        binding=binding_settings(config),
        lease=cluster.lease,
        call=cluster.call,
        drain=cluster.drain,
        keep=config.database.keep,
    )


def binding_settings(config: Config) -> BindingSettings:
    """Whether conversations are bound to sessions, and how far sub-agents may go."""
    bindings = config.discord.thread_bindings
    return BindingSettings(
        enabled=bindings.enabled,
        limits=Limits(idle=bindings.idle, max_age=bindings.max_age),
        spawns=SpawnLimits(
            is_on=bindings.enabled and bindings.spawn_subagent_sessions,
            depth=bindings.max_subagent_depth,
            at_once=bindings.max_subagents,
        ),
    )


def reaction_mapping(config: Config) -> Mapping[str, str]:
    """What people's reactions say, by the emoji itself; a `:shortcode:` is looked up."""
    mapping = {_emoji(written): text for written, text in config.reactions.mapping.items()}
    unknown = sorted(name for name in mapping if name.startswith(":"))
    if unknown:
        log.warning("reactions_not_understood", names=unknown)
    return mapping


def _emoji(written: str) -> str:
    # rich knows the names that chat networks give to emoji.
    return plain_emoji(Emoji.replace(written.strip()))


def _in_home(folder: str, environ: Mapping[str, str]) -> Path:
    home = user_home(environ)
    return home / expand_home(folder, home)


def workspaces(live: Live) -> LocalWorkspaces:
    """Where threads get folders of their own: below openab's folder, so in nobody's repository."""
    environ = live.environ
    return LocalWorkspaces(openab_home(environ) / "workspaces", user_home(environ), environ)


def presentation(live: Live) -> PresentationSettings:
    """What the presentation plane is told."""
    shown, reactions = live.config.presentation, live.config.reactions
    timing = reactions.timing
    return PresentationSettings(
        edit_interval=shown.edit_interval.total_seconds(),
        heartbeat=shown.heartbeat.total_seconds(),
        tool_display=ToolDisplay(reactions.tool_display.value),
        emojis=reactions.emojis.value if reactions.enabled else None,
        timing=ReactionTiming(
            debounce=timing.debounce.total_seconds(),
            stall_soft=timing.stall_soft.total_seconds(),
            stall_hard=timing.stall_hard.total_seconds(),
            done_hold=timing.done_hold.total_seconds(),
            error_hold=timing.error_hold.total_seconds(),
        ),
    )


def environment() -> Mapping[str, str]:
    """This process's environment, read once."""
    return dict(os.environ)
