"""Draws a lender that recalls its loans, and borrowers with small budgets."""

from __future__ import annotations

from random import Random
from typing import Final

from quorate.model.amounts import HOUR_MS, MINUTE_MS, SECOND_MS
from quorate.model.selector import REGION
from quorate.model.specs import Budget, Envelope, Funding, Lending, Malleable, Owner, Run, Sharing
from quorate.sim.demand import START_MS, Arrival, Size
from quorate.sim.room_work import Truth

LENDER: Final = "lender"
BORROWER: Final = "pup"
_RUNS_PER_LOAN: Final = 10


def draw_loans(
    chance: Random, size: Size, until_ms: int, *, is_honest: bool
) -> tuple[tuple[Owner | Budget, ...], tuple[Arrival, ...]]:
    """Return a lender and a borrower, their budgets, and the runs of both."""
    gpus = chance.randrange(2, 7)
    specs = (
        Owner(name=LENDER),
        Owner(name=BORROWER),
        Budget(name="b-lender", owner=LENDER, envelopes=(_line(chance, gpus, until_ms, LENDER),)),
        Budget(name="b-pup", owner=BORROWER, envelopes=(_line(chance, 2, until_ms, BORROWER),)),
    )
    arrivals = []
    for number in range(max(4, size.runs // _RUNS_PER_LOAN)):
        at_ms = chance.randrange(START_MS, until_ms)
        loan = _run(chance, f"pup{number:03d}", BORROWER, chance.randrange(1, gpus + 1))
        arrivals.append(_arrival(chance, at_ms, loan, is_honest=is_honest))
        own = _run(chance, f"own{number:03d}", LENDER, chance.randrange(1, gpus + 1))
        later_ms = min(until_ms - 1, at_ms + chance.randrange(40 * MINUTE_MS))
        arrivals.append(_arrival(chance, later_ms, own, is_honest=is_honest))
    return specs, tuple(arrivals)


def _line(chance: Random, gpus: int, until_ms: int, owner: str) -> Envelope:
    notices = (SECOND_MS, 2 * MINUTE_MS, 15 * MINUTE_MS, 2 * HOUR_MS)
    lending = Lending()
    if owner == LENDER:
        lending = Lending(allow=True, to=(BORROWER,), recall_notice_ms=chance.choice(notices))
    return Envelope(
        name="e",
        flavor="H100",
        selector=((REGION, "r"),),
        start_ms=START_MS - HOUR_MS,
        end_ms=until_ms + 1_000 * HOUR_MS,
        concurrency=gpus,
        sharing=Sharing.NONE,
        lending=lending,
    )


def _run(chance: Random, name: str, owner: str, gpus: int) -> Run:
    malleable = None
    if owner == BORROWER and gpus > 1 and not chance.randrange(3):
        malleable = Malleable(gpus_min=1, gpus_max=gpus, gpus_step=1, gpus_desired=gpus)
    return Run(
        name=name,
        owner=owner,
        flavors=("H100",),
        gpus=gpus,
        user="user",
        malleable=malleable,
        expected_duration_ms=chance.choice((30, 60, 180)) * MINUTE_MS,
        checkpoint_ms=chance.choice((0, MINUTE_MS, 10 * MINUTE_MS)),
        funding=Funding(allow_borrow=True, sponsors=(LENDER,)),
        nonce=f"{chance.getrandbits(64):016x}",
    )


def _arrival(chance: Random, at_ms: int, run: Run, *, is_honest: bool) -> Arrival:
    said_ms = run.expected_duration_ms or HOUR_MS
    tenths = 10 if is_honest else chance.choice((1, 5, 10, 10, 15))
    truth = Truth(work_ms=max(1, said_ms * tenths // 10), checkpoint_every_ms=10 * MINUTE_MS)
    return Arrival(at_ms, run, truth, 4 * HOUR_MS)
