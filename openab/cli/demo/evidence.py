"""What the proofs are computed from: the loopback's journal and world, sightings, agents' logs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from openab.cli.demo import agent_log
from openab.cli.demo.agent_log import AgentLog
from openab.cli.demo.brokers import DemoBroker
from openab.cli.demo.play import Asked, Cast, Story
from openab.cli.demo.sightings import PRESENTATION, Change, Sighting
from openab.simulator.discord import Message


class Missing(Exception):
    """The play did not get far enough for this to be judged."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a claim holds, and what was found."""

    holds: bool
    found: str


@dataclass(frozen=True)
class Evidence:
    """Everything that is known after the play."""

    cast: Cast
    story: Story
    sightings: list[Sighting]
    #: Seconds that a busy machine may add to what is promised about time.
    grace: float = 0.0

    @property
    def thread(self) -> str:
        """The thread's id. Missing if nothing was ever asked."""
        if self.story.thread is None:
            raise Missing("nothing was asked")
        return self.story.thread

    def asked(self, cue: str) -> Asked:
        """Ann's message with this sentence."""
        if cue not in self.story.asked:
            raise Missing("it was not asked any more")
        return self.story.asked[cue]

    @property
    def handoff(self) -> Message:
        """The message that hands work to Luna. Missing if there was none."""
        if self.story.handoff is None:
            raise Missing("nothing was handed over")
        return self.story.handoff

    @property
    def handed_over(self) -> str:
        """The work, as the message carries it."""
        _, _, written = self.handoff.content.partition("\n")
        return str(json.loads(written)["payload"]["text"])

    def log_of(self, broker: DemoBroker) -> AgentLog:
        """What its agent noted."""
        return agent_log.read(broker.agent_log)

    def by_bots(self) -> Iterator[Sighting]:
        """What bots wrote and rewrote, each state of each message."""
        bots = {broker.bot.id for broker in self.cast.brokers}
        for seen in self.sightings:
            if seen.author_id in bots and seen.change in {Change.CREATED, Change.EDITED}:
                yield seen

    def moment(self, message: Message) -> float:
        """When a message was seen first."""
        return next(seen.at for seen in self.sightings if seen.message_id == message.id)

    def standing(self) -> list[Message]:
        """What stands in the thread now."""
        known = self.thread in self.cast.discord.world.channels
        return self.cast.discord.messages(self.thread) if known else []

    def answers(self, broker: DemoBroker, cue: str) -> list[Message]:
        """A bot's messages that stand between Ann's message and her next one, live ones left out."""
        start = int(self.asked(cue).message.id)
        later = [int(one.message.id) for one in self.story.asked.values()]
        stop = min((identity for identity in later if identity > start), default=None)
        return [
            one
            for one in self.standing()
            if one.author.id == broker.bot.id
            and start < int(one.id) < (stop or int(one.id) + 1)
            and not one.content.startswith(PRESENTATION)
        ]
