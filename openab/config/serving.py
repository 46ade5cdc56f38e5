"""The sections about what people see and about the process itself."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from openab.config.fields import (
    OFF,
    ON,
    Days,
    Face,
    Flag,
    ForeignId,
    Hidden,
    Id,
    Milliseconds,
    Seconds,
    Section,
    SomeMilliseconds,
    SomeSeconds,
    Spelled,
    Text,
    TextMap,
    freeze,
    ours,
    shown,
    theirs,
    wrong,
)
from openab.config.secret import Secret
from openab.config.words import FinalStyle, PresentationMode, TableStyle, ToolDisplay
from openab.domain.emojis import Emojis
from openab.domain.ids import PlatformId
from openab.domain.listen import Listen

_EMOJIS = Emojis()


def _listen(value: object) -> object:
    if value == "" or not isinstance(value, str):
        return None if value == "" else value
    try:
        return Listen.parse(value)
    except ValueError as error:
        told, instead = f"{shown(value)} is no address with a port", 'write "127.0.0.1:8787"'
        raise wrong(told, f'{instead}, or "" for off') from error


def _nothing_if_empty(value: object) -> object:
    return None if value == "" else value


ListenAddress = Annotated[Listen | None, BeforeValidator(_listen), Spelled("host:port")]
ModeOrNone = Annotated[PresentationMode | None, BeforeValidator(_nothing_if_empty)]


class Database(Section):
    """`[database]`: where everything durable is kept. `Loaded.database` has the address in use."""

    url: Hidden = ours(
        Secret(""),
        "`sqlite:///PATH` or `postgresql://…`; empty: `openab.db` in openab's folder, so usually `sqlite:///~/.openab/openab.db`.",
    )
    auto_upgrade: Flag | None = ours(
        None, "Bring the schema up to date at the start. Absent: on SQLite yes, on Postgres no."
    )
    keep: Days = ours(30, "Days that finished rows are kept; 0: for good.", alias="keep_days")


class ConversationPresentation(Section):
    """`[presentation.conversations."ID"]`: for one channel or thread, read at the next turn."""

    mode: ModeOrNone = ours("", 'What people see there; "" is as everywhere.')


class Presentation(Section):
    """`[presentation]`: what people see while an agent works. Changes take effect while running."""

    mode: PresentationMode = ours("stream", "Text as it comes, signs of life only, or nothing.")
    multibot_mode: ModeOrNone = ours("", 'The same in threads with other bots; "" is as `mode`.')
    edit_interval: SomeMilliseconds = ours(
        1500, "Milliseconds between two edits of the placeholder.", alias="edit_interval_ms"
    )
    heartbeat: SomeSeconds = ours(
        20,
        "Seconds after which the status line moves although no text came.",
        alias="heartbeat_seconds",
    )
    final: FinalStyle = ours("auto", "The answer edits the placeholder, or is posted afresh.")
    ping_requester: Flag = ours(ON, "A fresh answer notifies the person who asked.")
    conversations: Annotated[Mapping[Id, ConversationPresentation], AfterValidator(freeze)] = ours(
        {}, ""
    )

    def mode_in(self, *ids: PlatformId | None, with_other_bots: bool) -> PresentationMode:
        """The mode in a conversation; give its id first, then its parent's."""
        for own in (self.conversations.get(each) for each in ids if each):
            if own and own.mode:
                return own.mode
        return (self.multibot_mode if with_other_bots else None) or self.mode


class Faces(Section):
    """`[reactions.emojis]`: the face of each state; an empty one is not shown."""

    queued: Face = theirs(_EMOJIS.queued, "Waiting.")
    thinking: Face = theirs(_EMOJIS.thinking, "Thinking.")
    tool: Face = theirs(_EMOJIS.tool, "Using a tool.")
    coding: Face = theirs(_EMOJIS.coding, "Writing code.")
    web: Face = theirs(_EMOJIS.web, "Reading the web.")
    done: Face = theirs(_EMOJIS.done, "Done.")
    error: Face = theirs(_EMOJIS.error, "Failed.")

    @property
    def value(self) -> Emojis:
        """As the parts that show them take it."""
        return Emojis(**self.model_dump())


class ReactionTiming(Section):
    """`[reactions.timing]`: in milliseconds."""

    debounce: Milliseconds = theirs(700, "Rest before a face changes.", alias="debounce_ms")
    stall_soft: Milliseconds = theirs(10000, "No progress: 🥱; 0: never.", alias="stall_soft_ms")
    stall_hard: Milliseconds = theirs(30000, "No progress: 😨; 0: never.", alias="stall_hard_ms")
    done_hold: Milliseconds = theirs(1500, "How long *done* stays.", alias="done_hold_ms")
    error_hold: Milliseconds = theirs(2500, "How long *failed* stays.", alias="error_hold_ms")


class Reactions(Section):
    """`[reactions]`: emoji on the message that asked."""

    enabled: Flag = theirs(ON, "Show the turn's state as a reaction, and 🚫 to strangers.")
    remove_after_reply: Flag = theirs(OFF, "Take the reaction away at the end.")
    mood_face: Flag = ours(
        OFF, "Add a random face beside *done*, as OpenAB does; it goes when *done* goes."
    )
    tool_display: ToolDisplay = theirs("full", "How much of a tool call is shown.")
    narration_display: Flag = theirs(OFF, "Keep text between tool calls in the answer.")
    emojis: Faces = theirs({}, "")
    timing: ReactionTiming = theirs({}, "")
    mapping: TextMap = theirs({}, "Reactions of people, and the text that each stands for.")


class Markdown(Section):
    """`[markdown]`: how answers are shown."""

    tables: TableStyle = theirs("code", "How tables are shown.")


class CronJob(Section):
    """`[[cron.jobs]]`: a prompt by the clock."""

    enabled: Flag = theirs(ON, "Whether it runs.")
    schedule: Text = theirs(..., "Five fields: minute, hour, day, month, weekday.")
    channel: ForeignId = theirs(..., "Where it is posted.")
    message: Text = theirs(..., "The prompt.")
    platform: Text = theirs("discord", "The chat network.")
    sender_name: Text = theirs("openab-cron", "Who asks.")
    thread_id: ForeignId = theirs("", "Post in this thread instead of a new one.")
    timezone: Text = theirs("UTC", "The zone that the schedule is read in.")


class Cron(Section):
    """`[cron]`: prompts by the clock."""

    usercron_enabled: Flag = theirs(OFF, "Read a second file of jobs, again whenever it changes.")
    usercron_path: Text = theirs("", "That file; a relative path is under openab's folder.")
    jobs: tuple[CronJob, ...] = theirs((), "")


class Stt(Section):
    """`[stt]`: voice messages to text."""

    enabled: Flag = theirs(OFF, "Transcribe voice messages.")
    api_key: Hidden = theirs(Secret(""), "Empty and a Groq address: `GROQ_API_KEY`.")
    model: Text = theirs("whisper-large-v3-turbo", "The model.")
    base_url: Text = theirs("https://api.groq.com/openai/v1", "An API like OpenAI's.")
    echo_transcript: Flag = theirs(OFF, "Post what was understood.")


class Cluster(Section):
    """`[cluster]`: several copies of one bot on one database."""

    lease: SomeSeconds = ours(
        15, "Seconds that a claim on a conversation lasts.", alias="lease_seconds"
    )
    call: SomeSeconds = ours(
        5, "Seconds that one call to the chat network may take.", alias="call_seconds"
    )
    drain: Seconds = ours(20, "Seconds to come to an end after SIGTERM.", alias="drain_seconds")


class Http(Section):
    """`[http]`: health, metrics and the status page."""

    listen: ListenAddress = ours("127.0.0.1:8787", 'Where to serve; "" is off.')

    @property
    def is_configured(self) -> bool:
        """Whether the address was written: a taken one is then an error, not a reason to move."""
        return "listen" in self.model_fields_set
