"""What can be chosen in an agent's session: models, modes, agents. The values are the agent's own."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """One value that an option can have, as the agent names it."""

    value: str
    name: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that can be chosen in a session; values are single, a repeated one is left out."""

    option_id: str
    name: str
    #: `model`, `agent`, `mode` …
    category: str
    choices: tuple[Choice, ...]
    current: str | None = None

    def offers(self, value: str) -> bool:
        """Whether the agent has named this value."""
        return any(choice.value == value for choice in self.choices)


MODELS = ("model",)
#: Some agents call it a mode, others an agent; one that has both means the agent.
AGENTS = ("agent", "mode")


def by_category(options: Sequence[Option], wanted: Sequence[str]) -> Option | None:
    """The first option of the first of these categories that has one."""
    return next(
        (option for category in wanted for option in options if option.category == category), None
    )


def by_id(options: Sequence[Option], option_id: str) -> Option | None:
    """The option of this id."""
    return next((option for option in options if option.option_id == option_id), None)


def by_choice(option: Option, value: str | None) -> Choice | None:
    """The choice of this value."""
    return next((choice for choice in option.choices if choice.value == value), None)
