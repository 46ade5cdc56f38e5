"""A table of states and events: what may follow what, and the diagram of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from openab.domain.errors import IllegalTransition

State = TypeVar("State", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Machine(Generic[State]):
    """A lifecycle as data. Everything that changes a state goes through `next`; nothing else does."""

    initial: State
    table: Mapping[State, Mapping[type, State]]
    #: Arrows that only a person's wish takes, back from a state in which all is over.
    reopened: Mapping[State, Mapping[type, State]] = field(default_factory=dict)

    def next(self, state: State, event: object) -> State:
        """The state after `event`. Raises IllegalTransition, and changes nothing, if the table has no such arrow."""
        target = self._arrows(state).get(type(event))
        if target is None:
            raise IllegalTransition(f"{type(event).__name__} does not apply to {state}")
        return target

    def allows(self, state: State, event_type: type) -> bool:
        """Whether the table has an arrow for this kind of event."""
        return event_type in self._arrows(state)

    @property
    def terminal(self) -> frozenset[State]:
        """The states that nothing leaves by itself."""
        return frozenset(state for state, arrows in self.table.items() if not arrows)

    @property
    def open(self) -> frozenset[State]:
        """The states that something still has to happen to."""
        return frozenset(self.table) - self.terminal

    def to_mermaid(self) -> str:
        """The table as a Mermaid state diagram, for docs/lifecycles.md."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.initial}"]
        for state in self.table:
            lines += [
                f"    {state} --> {target}: {event.__name__}"
                for event, target in self._arrows(state).items()
            ]
            if state in self.terminal:
                lines.append(f"    {state} --> [*]")
        return "\n".join(lines)

    def _arrows(self, state: State) -> Mapping[type, State]:
        return {**self.table[state], **self.reopened.get(state, {})}
