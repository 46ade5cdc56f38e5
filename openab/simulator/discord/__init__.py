"""A Discord on 127.0.0.1: REST v10, gateway v10, people, a journal and scripted faults."""

from openab.simulator.discord.fault_kinds import (
    RestFault,
    commit_then,
    commit_then_drop,
    drop_before_commit,
    hang,
    rate_limited,
    refuse,
    server_error,
)
from openab.simulator.discord.faults import FaultHandle, Faults
from openab.simulator.discord.interactions import Callback
from openab.simulator.discord.journal import GatewayEvent, Journal, Request
from openab.simulator.discord.people import Bot, PendingInteraction, Person
from openab.simulator.discord.records import Attachment, Channel, Guild, Message
from openab.simulator.discord.server import LoopbackDiscord

__all__ = [
    "Attachment",
    "Bot",
    "Callback",
    "Channel",
    "FaultHandle",
    "Faults",
    "GatewayEvent",
    "Guild",
    "Journal",
    "LoopbackDiscord",
    "Message",
    "PendingInteraction",
    "Person",
    "Request",
    "RestFault",
    "commit_then",
    "commit_then_drop",
    "drop_before_commit",
    "hang",
    "rate_limited",
    "refuse",
    "server_error",
]
