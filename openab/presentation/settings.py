"""What the presentation plane needs of the configuration."""

from dataclasses import dataclass, field

from openab.domain.emojis import Emojis
from openab.presentation.reactions import ReactionTiming
from openab.text.tools import ToolDisplay

#: `[presentation] mode`: everything, the status and tools only, or nothing while a turn runs.
STREAM, HEARTBEAT, FINAL = "stream", "heartbeat", "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentationSettings:
    """Values that a turn takes when it opens; intervals in seconds."""

    edit_interval: float = 1.5
    heartbeat: float = 20.0
    tool_display: ToolDisplay = ToolDisplay.FULL
    #: None: no reactions.
    emojis: Emojis | None = field(default_factory=Emojis)
    timing: ReactionTiming = field(default_factory=ReactionTiming)
