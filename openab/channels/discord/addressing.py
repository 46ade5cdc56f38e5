"""Which Discord this process talks to; discord.py keeps that in class attributes, so there is one at a time."""

import discord.gateway
import discord.http
import yarl


class OtherApiBase(RuntimeError):
    """The process talks to another Discord already; two need two processes."""


class _Holders:
    """Who uses the base now."""

    count = 0


def claim(api_base: str) -> None:
    """Point discord.py at `api_base` until as many `release` follow; another base meanwhile is an error."""
    base = api_base.rstrip("/")
    if _Holders.count and base != discord.http.Route.BASE:
        raise OtherApiBase(f"this process talks to {discord.http.Route.BASE}, not to {base}")
    discord.http.Route.BASE = base
    _Holders.count += 1


def release() -> None:
    """One user less."""
    _Holders.count -= 1


def use_gateway(url: str) -> None:
    """Where every new gateway connection goes that does not resume one."""
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(url)
