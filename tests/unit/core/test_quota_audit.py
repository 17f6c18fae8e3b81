"""I4 in histories: starts beyond a hard quota of any ancestor are found."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.audit.history_audit import audit
from quorate.core.commands import Apply, Complete, Release, Submit, Wiped
from quorate.model.amounts import HOUR_MS
from quorate.model.events import Event, LeaseStarted, OwnerApplied
from quorate.model.specs import Owner, Quota
from quorate.testing.builders import NOW_MS, budget, envelope, node, run
from tests.oracles.lives import Life

FAMILY = [
    Owner(name="top"),
    Owner(name="mid", parents=("top",)),
    Owner(name="low", parents=("mid",)),
]


def life() -> Life:
    """Return a ledger of three generations and four nodes; the youngest has all the money."""
    return Life(
        nodes=[node(f"n{number}") for number in range(4)],
        owners=FAMILY,
        budgets=[budget("b", "low", envelope("e", 64))],
    )


def limited(events: list[Event], owner: str, quota: Quota) -> list[Event]:
    """Return a history as if ``owner`` had had ``quota`` from the beginning."""
    return [
        replace(event, owner=replace(event.owner, quota=quota))
        if isinstance(event, OwnerApplied) and event.owner.name == owner
        else event
        for event in events
    ]


def found(events: list[Event]) -> list[tuple[str, str]]:
    """Return the violations of I4, with their owners."""
    return [(each.subject, each.found) for each in audit(events) if each.rule == "I4"]


@pytest.mark.parametrize("owner", ["top", "mid", "low"])
def test_the_audit_finds_who_started_beyond_a_quota_of_its_family(owner: str) -> None:
    ledger = life()
    ledger.do(Submit(run("a", 8, "low")))
    ledger.do(Submit(run("b", 16, "low")))
    for quota, broken in (
        (Quota(nodes_max=3, concurrent_runs_max=2), []),
        (Quota(nodes_max=2), [("b/0", f"brings {owner} to 3 nodes, above its limit of 2")]),
        (
            Quota(concurrent_runs_max=1),
            [("b", f"brings {owner} to 2 running runs, above its limit of 1")],
        ),
    ):
        assert found(limited(ledger.events, owner, quota)) == broken


@pytest.mark.parametrize(
    ("is_clean", "broken"),
    [(True, []), (False, [("r/0", ("brings top to 2 nodes, above its limit of 1"))])],
)
def test_a_node_that_was_claimed_counts_until_it_is_clean(
    is_clean: bool,  # noqa: FBT001
    broken: list[tuple[str, str]],
) -> None:
    ledger = life()
    ledger.do(Submit(run("c", 8, "low", sensitive=True, expected_duration_ms=HOUR_MS)))
    ledger.do(Release("c"), NOW_MS + 1)
    ledger.do(Wiped("n0", is_clean=is_clean))
    ledger.do(Submit(run("r", 8, "low")))
    assert found(limited(ledger.events, "top", Quota(nodes_max=1))) == broken


def test_a_spare_that_goes_back_is_no_start_even_at_the_instant_of_its_run() -> None:
    """The limit was lowered below the use meanwhile, which takes no node away."""
    ledger = Life(
        nodes=[node("n0"), node("n1")],
        owners=FAMILY,
        budgets=[budget("b", "low", envelope("e", 64))],
    )
    ledger.do(Submit(run("a", 8, "low", spares_per_group=8)))
    ledger.do(Submit(run("filler", 8, "low")))
    assert ledger.on("filler") == {"n1": 8}
    ledger.do(Apply((Owner(name="top", quota=Quota(nodes_max=1)), *FAMILY[1:])))
    decision = ledger.do(Complete("filler"))
    assert any(isinstance(event, LeaseStarted) for event in decision.events)
    assert found(ledger.events) == []
