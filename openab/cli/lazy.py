"""A group of commands whose modules are imported when they are typed, so that start-up stays short."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from typer.core import TyperGroup
from typer.main import get_command


class LazyGroup(TyperGroup):
    """Words of `modules` are served by the `app` of that module, after the group's own words."""

    #: The word, and the module whose typer `app` serves it.
    modules: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Every word; none is imported for that."""
        return [*super().list_commands(ctx), *self.modules]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The word's command, imported now. None: there is no such word."""
        module = self.modules.get(cmd_name)
        if module is None:
            return super().get_command(ctx, cmd_name)
        command = get_command(import_module(module).app)
        command.name = cmd_name
        return command
