from __future__ import annotations

import pytest

from quorate.model.events import (
    EndReason,
    NodeMarked,
    NodeStatus,
    Outcome,
    RunStopping,
    StartReason,
)
from quorate.views.runs.event_text import format_event, nodes_of, run_of
from quorate.views.runs.reason_words import began, ended, run_stopping, stopping


@pytest.mark.parametrize("reason", list(StartReason))
def test_every_start_reason_has_words_after_its_name(reason: StartReason) -> None:
    name, _, words = began(reason).partition(", ")
    assert name == reason
    assert words


@pytest.mark.parametrize("reason", list(EndReason))
def test_every_end_reason_has_words_after_its_name(reason: EndReason) -> None:
    name, _, words = ended(reason).partition(", ")
    assert name == reason
    assert words


@pytest.mark.parametrize(
    ("outcome", "then"), [(None, "waits again"), (Outcome.CANCELLED, "is cancelled")]
)
def test_a_stop_says_what_follows(outcome: Outcome | None, then: str) -> None:
    event = RunStopping(at_ms=0, actor="a", run="r", outcome=outcome, reason=EndReason.DRAINED)
    assert stopping(event).endswith(f"; then it {then}")
    assert run_of(event) == "r"
    assert format_event(event) == f"run/r is {stopping(event)}"


def test_a_cancelled_run_that_is_stopping_says_so_once() -> None:
    outcome, reason = Outcome.CANCELLED, EndReason.CANCELLED
    event = RunStopping(at_ms=0, actor="a", run="r", outcome=outcome, reason=reason, note="typo")
    assert run_stopping(event) == "run/r is stopping; it was cancelled (typo)"
    dry = run_stopping(event, dry_run=True)
    assert dry == "run/r would be stopped; it would be cancelled (typo)"


def test_a_marked_node_is_told_with_its_note() -> None:
    event = NodeMarked(at_ms=0, actor="a", node="n", status=NodeStatus.FAILED, note="smoke")
    assert format_event(event) == "node/n Failed: smoke"
    assert (nodes_of(event), run_of(event)) == (("n",), None)
