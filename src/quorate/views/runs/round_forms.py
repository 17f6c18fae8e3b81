"""A run in the rounds of its pool: its priority by flavor, and the bounds of its lease. Pure.

``policy.rounds`` chooses runs by these priorities and owed times. Priorities and owed times are as
recorded at the beginning of the pool's current round.
"""

from __future__ import annotations

from fractions import Fraction

from quorate.core.rounds.lease_bounds import LeaseBounds
from quorate.documents.times import time_text
from quorate.documents.written import seconds
from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.state.entitlements import received_ms
from quorate.model.state.records import Lease
from quorate.model.state.state_view import StateView
from quorate.policy.rounds.round_book import Standing, turn_s
from quorate.views.kinds.kind import Tree
from quorate.views.numbers import fraction_number


def turns(view: StateView, run: str) -> list[Tree]:
    """Return share, owed time and priority of ``run`` for each flavor that it has a share of.

    The priority is the run's turn in seconds (``turn_s``), computed as for a run without GPUs. The
    result is empty if the pool has no rounds, or the run was submitted after the round began.
    """
    found = LeaseBounds(view).shared(run)
    if found is None:
        return []
    shared, share = found
    had_ms = received_ms(view, run, shared.at_ms)
    entitled_ms = view.in_rounds[run].entitled_ms
    round_ms = view.pools[shared.pool].round_ms
    return [
        _turn(flavor, ppm, entitled_ms.get(flavor, 0) - had_ms.get(flavor, 0), round_ms)
        for flavor, ppm in zip(shared.flavors, share.shares_ppm, strict=True)
        if ppm
    ]


def _turn(flavor: str, share_ppm: int, owed_ms: int, round_ms: int) -> Tree:
    share = Fraction(share_ppm, PPM)
    turn = turn_s(owed_ms / SECOND_MS, share_ppm / PPM, round_ms / SECOND_MS, Standing.WAITING)
    priority = Fraction(round(turn * SECOND_MS), SECOND_MS)
    return {
        "flavor": flavor,
        "share": fraction_number(share),
        "owedSeconds": seconds(owed_ms),
        "priority": fraction_number(priority),
    }


def turn_text(turn: Tree) -> str:
    """Return one turn as text."""
    return (
        f"{turn['flavor']}: share {turn['share']}, owed {turn['owedSeconds']} s, "
        f"priority {turn['priority']}"
    )


def lease_bounds(view: StateView, lease: Lease) -> Tree | None:
    """Return the time and the steps that ``lease`` allows; None if its pool has no rounds.

    The run can read these bounds when it starts.
    """
    run = lease.fact.run
    rounds = LeaseBounds(view)
    found, bound = rounds.shared(run), rounds.of(lease.fact, run)
    if found is None or bound is None:
        return None
    shared, _ = found
    return {
        "number": shared.number,
        "policy": shared.policy,
        "until": time_text(shared.until_ms),
        "maxSteps": bound.steps,
        "maxDurationSeconds": seconds(bound.length_ms),
        "turns": turns(view, run),
    }
