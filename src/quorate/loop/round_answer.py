"""What a pool is shared by in a round: its policy's answer, or equal shares where it has none.

Whatever a policy or somebody's numbers bring about, the others are served. A run that the policy
names as the reason why it has no answer is left out of the round, and the policy is asked again.
Where that is not it, or not enough, everybody shares by weight, which needs no solver: nobody gains
by spoiling a round, for owners have their parts then, too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quorate.loop.round_floor import Floor, Member
from quorate.loop.round_problem import PoolPolicy, problem_of
from quorate.model.view import StateView
from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode
from quorate.policy.askable import answer
from quorate.policy.equal_shares import BY_WEIGHT

_LOG = logging.getLogger(__name__)
ASKED_MAX: Final = 4
"""How often a policy is asked in a round; each time without those that it named before."""
NAMES_SHOWN_MAX: Final = 8
"""How many of the runs that are left out a round names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer of a round, the policy it is by, among whom, and what is to be said of it."""

    policy: str
    members: Sequence[Member]
    allocation: Allocation
    note: str = ""


def answered(
    view: StateView, floor: Floor, members: Sequence[Member], policy: PoolPolicy | None, now_ms: int
) -> Answered:
    """Return by what ``members`` share the next round of a pool.

    Raises whatever equal shares raise: they have an answer for everybody who can run.
    """
    if policy is None:
        return _equal(view, floor, members, now_ms, f"there is no policy {floor.pool.policy!r}")
    left = list(members)
    notes: list[str] = []
    for _ in range(ASKED_MAX):
        found = _asked(view, floor, left, policy, now_ms)
        if isinstance(found, Allocation):
            note = "; ".join(notes)
            return Answered(policy=policy.name, members=left, allocation=found, note=note)
        notes.append(_words(found))
        out = set(found.jobs)
        left = [member for member in left if member.record.spec.name not in out]
        if not out or not left:
            break
    return _equal(view, floor, members, now_ms, notes[-1])


def _asked(
    view: StateView, floor: Floor, members: Sequence[Member], policy: PoolPolicy, now_ms: int
) -> Allocation | Unsolved:
    """Return what ``policy`` answers, checked; whatever else it does is a refusal."""
    refusal = _too_many(policy, len(members), sum(floor.gpus))
    if refusal is not None:
        return refusal
    try:
        return answer(policy, problem_of(view, floor, members, policy, now_ms))
    except Exception as error:  # noqa: BLE001 - a round that ended the service would be due again
        _LOG.exception("the policy of pool %s failed", floor.pool.name)
        return Unsolved(
            code=UnsolvedCode.SOLVER_FAILED,
            subject="policy",
            message=f"the policy failed: {type(error).__name__}: {error}",
            remedy="choose another policy for the pool, and report this",
        )


def _too_many(policy: PoolPolicy, runs: int, gpus: int) -> Unsolved | None:
    """Return why ``policy`` is not asked for so many runs, if so: nobody is served meanwhile."""
    whole, each = policy.jobs_max, policy.jobs_per_gpu_max
    limits = [] if whole is None else [whole]
    limits += [] if each is None else [each * gpus]
    if not limits or runs <= min(limits):
        return None
    return Unsolved(
        code=UnsolvedCode.NOT_APPLICABLE,
        subject="jobs",
        message=f"{policy.name} takes too long for {runs} runs: {min(limits)} are the most here",
        remedy="choose another policy for the pool",
    )


def _equal(
    view: StateView, floor: Floor, members: Sequence[Member], now_ms: int, why: str
) -> Answered:
    found = BY_WEIGHT.solve(problem_of(view, floor, members, BY_WEIGHT, now_ms))
    assert isinstance(found, Allocation), found
    note = f"all share by weight: {why}"
    return Answered(policy=BY_WEIGHT.name, members=members, allocation=found, note=note)


def _words(refusal: Unsolved) -> str:
    """Return a refusal in words, and whom it leaves out."""
    told = f"{refusal.message}; {refusal.remedy}"
    if not refusal.jobs:
        return told
    names = ", ".join(refusal.jobs[:NAMES_SHOWN_MAX])
    more = len(refusal.jobs) - NAMES_SHOWN_MAX
    return f"left out: {names}{f' and {more} more' if more > 0 else ''} ({told})"
