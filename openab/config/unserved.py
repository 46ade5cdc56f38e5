"""Sections that OpenAB knows and openab does not serve: accepted, checked for their keys, unused."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from openab.config.fields import (
    OFF,
    ON,
    Count,
    Flag,
    Hidden,
    HiddenMap,
    Section,
    Spelled,
    Text,
    Texts,
    Whole,
    freeze,
    theirs,
)
from openab.config.words import BotMode, CancelStrategy, DispatchMode, OnFailure, UserMode

#: A section whose keys are not looked at.
AnyTable = Annotated[Mapping[str, Any], AfterValidator(freeze), Spelled("table")]


class _Chat(Section):
    """What every chat network's section has."""

    allow_all_channels: Flag | None = theirs(None, "As in `[discord]`.")
    allowed_channels: Texts = theirs((), "As in `[discord]`.")
    allow_all_users: Flag | None = theirs(None, "As in `[discord]`.")
    allowed_users: Texts = theirs((), "As in `[discord]`.")
    trusted_bot_ids: Texts = theirs((), "As in `[discord]`.")
    message_processing_mode: DispatchMode = theirs("per-message", "As in `[discord]`.")
    max_buffered_messages: Count = theirs(10, "As in `[discord]`.")
    max_batch_tokens: Count = theirs(24000, "As in `[discord]`.")


class Slack(_Chat):
    """`[slack]`."""

    bot_token: Hidden = theirs(..., "The bot's token.")
    app_token: Hidden = theirs(..., "The app's token.")
    allow_user_messages: UserMode = theirs("multibot-mentions", "As in `[discord]`.")
    allow_bot_messages: BotMode = theirs("off", "As in `[discord]`.")
    max_bot_turns: Whole = theirs(100, "As in `[discord]`.")
    assistant_mode: Flag = theirs(ON, "Use Slack's assistant status and streams.")
    streaming: Flag = theirs(ON, "Show text as it comes.")


class Gateway(_Chat):
    """`[gateway]`."""

    url: Text = theirs(..., "The gateway's WebSocket.")
    platform: Text = theirs("telegram", "The chat network behind it.")
    token: Hidden | None = theirs(None, "The gateway's token.")
    bot_username: Text | None = theirs(None, "The bot's name in groups.")
    allow_bot_messages: Flag = theirs(OFF, "Listen to bots.")
    streaming: Flag = theirs(OFF, "Show text as it comes.")
    streaming_placeholder: Flag = theirs(ON, "Show a placeholder first.")
    telegram_rich_messages: Flag = theirs(ON, "The gateway shows tables itself.")


class AmbientPool(Section):
    """`[ambient.pool]`."""

    max_sessions: Count = theirs(5, "Sessions at most.")
    session_ttl_minutes: Whole = theirs(60, "Silent minutes until a session ends.")
    context_flushes: Whole = theirs(3, "Batches kept as context.")


class AmbientDiscord(Section):
    """`[ambient.discord]`."""

    channels: Texts = theirs((), "Channels to listen in.")
    allow_bot_messages: Flag = theirs(ON, "Listen to bots.")


class Ambient(Section):
    """`[ambient]`."""

    enabled: Flag = theirs(OFF, "Listen without being mentioned.")
    flush_interval_seconds: Whole = theirs(60, "Seconds between batches.")
    flush_max_messages: Whole = theirs(10, "Messages that make a batch.")
    flush_hard_cap: Whole = theirs(50, "Messages kept at most.")
    max_concurrent_flushes: Whole = theirs(3, "Batches at once.")
    flush_timeout_seconds: Whole = theirs(120, "Seconds for one batch.")
    context_window: Whole = theirs(20, "Messages of context.")
    instructions_file: Text | None = theirs(None, "What the agent is told.")
    pool: AmbientPool = theirs({}, "")
    discord: AmbientDiscord = theirs({}, "")


class Hook(Section):
    """`[hooks.pre_boot]` and `[hooks.pre_shutdown]`."""

    script: Text | None = theirs(None, "An absolute path.")
    inline: Text | None = theirs(None, "The script itself.")
    url: Text | None = theirs(None, "Where the script is fetched.")
    sha256: Text | None = theirs(None, "Its checksum.")
    timeout_seconds: Whole = theirs(60, "Seconds it may take.")
    on_failure: OnFailure = theirs("abort", "Stop the start, or go on.")


class PreSeed(Section):
    """`[hooks.pre_seed]`."""

    sources: Texts = theirs((), "Archives in S3.")
    target: Text | None = theirs(None, "Where they are unpacked; absent: `$HOME`.")
    region: Text | None = theirs(None, "The S3 region.")
    endpoint_url: Text | None = theirs(None, "The S3 address.")
    max_bytes: Whole = theirs(104857600, "Size of an archive at most.")
    timeout_seconds: Whole = theirs(300, "Seconds for each.")
    on_failure: OnFailure = theirs("abort", "Stop the start, or go on.")


class Hooks(Section):
    """`[hooks]`."""

    pre_seed: PreSeed | None = theirs(None, "")
    pre_boot: Hook | None = theirs(None, "")
    pre_shutdown: Hook | None = theirs(None, "")


class SecretsAws(Section):
    """`[secrets.aws]`."""

    region: Text | None = theirs(None, "The region.")
    endpoint_url: Text | None = theirs(None, "The address.")


class SecretsExec(Section):
    """`[secrets.exec]`."""

    timeout_seconds: Whole = theirs(10, "Seconds for one call.")


class Secrets(Section):
    """`[secrets]`."""

    refs: HiddenMap = theirs({}, "Names, and where each secret is kept.")
    aws: SecretsAws = theirs({}, "")
    exec: SecretsExec = theirs({}, "")


class Filestore(Section):
    """`[filestore]`."""

    bucket: Text = theirs(..., "The bucket.")
    region: Text = theirs(..., "The region.")
    endpoint: Text | None = theirs(None, "Another S3 address.")
    prefix: Text = theirs("incoming/", "How the objects' names begin.")
    presigned_ttl: Whole = theirs(3600, "Seconds that an address is good for.")
    max_file_size_mb: Whole = theirs(250, "Size of a file at most.")
    access_key_id: Hidden | None = theirs(None, "The key's id.")
    secret_access_key: Hidden | None = theirs(None, "The key.")


class AgentCore(Section):
    """`[agentcore]`."""

    runtime_arn: Text = theirs(..., "The remote runtime.")
    shell_command: Text = theirs("kiro-cli acp --trust-all-tools", "The agent started there.")
    cancel_strategy: CancelStrategy = theirs("stop", "How it is cancelled.")


class Unserved(Section):
    """The sections themselves; the base of the whole file's model."""

    slack: Slack | None = theirs(None, "")
    gateway: Gateway | None = theirs(None, "")
    telegram: AnyTable | None = theirs(None, "")
    line: AnyTable | None = theirs(None, "")
    lineworks: AnyTable | None = theirs(None, "")
    wecom: AnyTable | None = theirs(None, "")
    googlechat: AnyTable | None = theirs(None, "")
    teams: AnyTable | None = theirs(None, "")
    feishu: AnyTable | None = theirs(None, "")
    agentcore: AgentCore | None = theirs(None, "")
    ambient: Ambient | None = theirs(None, "")
    delivery: AnyTable | None = theirs(None, "")
    filestore: Filestore | None = theirs(None, "")
    hooks: Hooks | None = theirs(None, "")
    mcp: AnyTable | None = theirs(None, "")
    secrets: Secrets | None = theirs(None, "")
    triage: AnyTable | None = theirs(None, "")


#: Their names; each one that is written is told.
UNSERVED = frozenset(Unserved.model_fields)
#: Those of them that OpenAB takes for a chat network.
OTHER_CHATS = frozenset(
    ("slack", "gateway", "telegram", "line", "lineworks", "wecom", "googlechat", "teams", "feishu")
)
