"""When something was made on the network: its id tells."""

from datetime import datetime

import discord

from openab.domain.ids import PlatformId


def moment_of(made: PlatformId) -> datetime:
    """When a message, or whatever has this id, was made, by the network's clock."""
    return discord.utils.snowflake_time(int(made))
