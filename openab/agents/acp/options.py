"""What can be chosen in an ACP session, in each form that agents tell it, and how it is set (no I/O)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from openab.agents.acp.wire import Json
from openab.domain.options import AGENTS, MODELS, Choice, Option, by_category, by_id

#: The ids that the older forms, which have none, get here.
_MODEL, _AGENT = "model", "agent"


class SessionOptions:
    """`configOptions`, and the older `models` and `modes` where those say nothing of their category."""

    def __init__(self) -> None:
        self._config: tuple[Option, ...] = ()
        self._models: Option | None = None
        self._modes: Option | None = None

    @property
    def known(self) -> tuple[Option, ...]:
        """Everything that can be chosen, as the agent last said it."""
        found = list(self._config)
        if self._models and by_category(found, MODELS) is None:
            found.append(self._models)
        if self._modes and by_category(found, AGENTS) is None:
            found.append(self._modes)
        return tuple(found)

    def take(self, answer: Mapping[str, Any]) -> None:
        """Read an answer of the agent; what it does not mention stays as it was."""
        if isinstance(answer.get("configOptions"), list):
            self._config = tuple(_config_options(answer["configOptions"]))
        self._models = _models(answer.get("models")) or self._models
        self._modes = _modes(answer.get("modes")) or self._modes

    def update(self, update: object) -> None:
        """Read a session/update; kinds that say nothing of options are left alone."""
        if not isinstance(update, Mapping):
            return
        if update.get("sessionUpdate") == "config_option_update":
            self.take(update)
        current = update.get("currentModeId")
        if update.get("sessionUpdate") == "current_mode_update" and isinstance(current, str):
            self._modes = self._modes and replace(self._modes, current=current)

    def calls(self, session_id: str, option_id: str, value: str) -> list[tuple[str, Json]]:
        """The requests that set an option; the next one only if the agent does not know the first."""
        config: Json = {"sessionId": session_id, "configId": option_id, "value": value}
        standard = ("session/set_config_option", config)
        if by_id(self._config, option_id) is not None:
            return [standard]
        if self._models and option_id == _MODEL:
            return [("session/set_model", {"sessionId": session_id, "modelId": value}), standard]
        if self._modes and option_id == _AGENT:
            return [("session/set_mode", {"sessionId": session_id, "modeId": value}), standard]
        return [standard]

    def chosen(self, option_id: str, value: str, answer: Mapping[str, Any]) -> None:
        """The agent took a value; its answer is believed where it says more."""
        self._config = tuple(
            replace(option, current=value) if option.option_id == option_id else option
            for option in self._config
        )
        if option_id == _MODEL:
            self._models = self._models and replace(self._models, current=value)
        if option_id == _AGENT:
            self._modes = self._modes and replace(self._modes, current=value)
        self.take(answer)


def _config_options(value: list[object]) -> Iterator[Option]:
    for item in value:
        if not isinstance(item, Mapping) or not isinstance(item.get("id"), str):
            continue
        choices = tuple(_choices(item.get("options")))
        if not choices:
            # A switch, a free text: nothing that a menu can show.
            continue
        category = _text(item.get("category")) or item["id"]
        name = _text(item.get("name")) or item["id"]
        yield Option(item["id"], name, category, choices, _maybe(item.get("currentValue")))


def _choices(value: object, key: str = "value") -> Iterator[Choice]:
    for item in value if isinstance(value, list) else []:
        if not isinstance(item, Mapping):
            continue
        if isinstance(item.get("options"), list):
            # A group: only its members can be chosen.
            yield from _choices(item["options"], key)
        elif isinstance(item.get(key), str):
            yield Choice(item[key], _text(item.get("name")), _text(item.get("description")))


def _models(value: object) -> Option | None:
    return _older(value, _MODEL, "Model", ("availableModels", "modelId", "currentModelId"))


def _modes(value: object) -> Option | None:
    return _older(value, _AGENT, "Agent", ("availableModes", "id", "currentModeId"))


def _older(value: object, option_id: str, name: str, keys: tuple[str, str, str]) -> Option | None:
    if not isinstance(value, Mapping):
        return None
    listed, key, current = keys
    choices = tuple(_choices(value.get(listed), key))
    return (
        Option(option_id, name, option_id, choices, _maybe(value.get(current))) if choices else None
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _maybe(value: object) -> str | None:
    return value if isinstance(value, str) else None
