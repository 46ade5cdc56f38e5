"""The error tree: three branches, told apart by what the caller can do.

OpenabError
├── Rejected     it did not happen and never will this way: tell whoever asked
├── Transient    it did not happen: try again, not before `retry_after`
├── Unknown      it may have happened: look before repeating
└── LeaseLost    somebody else owns the conversation now: stop, write nothing
"""


class OpenabError(Exception):
    """Any expected failure; everything else that is raised is a bug."""


class Rejected(OpenabError):
    """A definite refusal: nothing happened, and repeating the same call is pointless."""


class Transient(OpenabError):
    """Nothing happened; the same call may succeed after `retry_after` seconds (None: not told)."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unknown(OpenabError):
    """The effect may or may not have happened; the caller must find out before it repeats."""


class LeaseLost(OpenabError):
    """The conversation's epoch is no longer ours: the transaction was rolled back, the owner must stop."""


class IllegalTransition(OpenabError):
    """A state machine was given an event that its state does not allow; nothing was changed."""
