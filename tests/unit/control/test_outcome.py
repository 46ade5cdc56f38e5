"""What an agent says of its failure is told without the secrets that we know."""

from openab.control.outcome import redacted
from openab.domain.agent_events import AgentFailure, EndKind, FailureKind, PromptEnded


def hide(text: str) -> str:
    return text.replace("s3cret", "***")


def test_a_failure_is_told_without_known_secrets() -> None:
    failure = AgentFailure(FailureKind.EXITED, "key s3cret refused", stderr_tail="using s3cret")
    end = redacted(PromptEnded(EndKind.FAILED, failure=failure), hide)
    assert end.failure is not None
    assert (end.failure.message, end.failure.stderr_tail) == ("key *** refused", "using ***")


def test_an_end_without_a_failure_stays_as_it_is() -> None:
    end = PromptEnded(EndKind.COMPLETED, stop_reason="end_turn")
    assert redacted(end, hide) is end
