"""The conversation's writer: one edit in flight, the newest pending edit replaces older ones, sends go first."""

import asyncio
from enum import StrEnum
from typing import Protocol

from openab.domain.ids import MessageRef
from openab.domain.outbound import MessageBody


class EditOutcome(StrEnum):
    """What became of a streaming edit."""

    SHOWN = "shown"
    #: A newer edit took its place before it was sent, or the writer was closed.
    REPLACED = "replaced"
    #: Definitely not shown, but a later edit may work (429, no byte left).
    LATER = "later"
    #: It may have been shown, or may still be.
    UNKNOWN = "unknown"
    #: The message cannot be edited any more.
    LOST = "lost"


class LiveWriter(Protocol):
    """What a feed may use to show something."""

    async def edit(
        self, ref: MessageRef, body: MessageBody, given_up: asyncio.Event | None = None
    ) -> EditOutcome:
        """Show this body when the pace allows; returns when that is settled. Never raises for the network.

        Once `given_up` is set, an edit that still waits for the pace is replaced by nothing.
        """
        ...
