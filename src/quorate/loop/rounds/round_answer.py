"""What a pool is shared by in a round: its policy's answer, or equal shares where it has none.

Whatever a policy or the numbers of one run cause, the other runs are served. A run that the policy
names as the reason why it has no answer is left out of the round, and the policy is called again.
Where that does not help, or not enough, all runs share by weight, which needs no solver: owners
have their parts then, whatever the policy gave them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.loop.rounds.kept_answers import KeptAnswers
from quorate.loop.rounds.round_problem import PoolPolicy, problem_of
from quorate.loop.rounds.round_snapshot import Floor, Member
from quorate.model.closed_words import counted
from quorate.model.state.state_view import StateView
from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode
from quorate.policy.policies.by_weight import BY_WEIGHT

_LOG = logging.getLogger(__name__)
ASKED_MAX: Final = 4
"""How often a policy is called in a round; each time without the runs that it named before."""
FLAVORS_USUAL: Final = 3
"""The number of flavors for which a policy's limits on jobs are stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer of a round, its policy, the runs that share, and the round's note."""

    policy: str
    members: Sequence[Member]
    allocation: Allocation
    note: str = ""


def answered(
    view: StateView,
    floor: Floor,
    members: Sequence[Member],
    by: tuple[PoolPolicy | None, KeptAnswers],
    now_ms: int,
) -> Answered:
    """Return the answer by which ``members`` share the next round of a pool.

    An answer that is kept from an equal problem is not computed again. Errors of the equal shares
    pass through; these have an answer for every run that can run.
    """
    policy, kept = by
    if policy is None:
        return _equal(view, floor, members, now_ms, f"there is no policy {floor.pool.policy!r}")
    left = list(members)
    notes: list[str] = []
    for _ in range(ASKED_MAX):
        found = _asked(view, floor, left, (policy, kept), now_ms)
        if isinstance(found, Allocation):
            if found.unfinished:
                notes.append(
                    f"{len(found.unfinished)} runs might have more: how much takes {policy.name} "
                    "too long to compute, or is hidden by rounding; they share the rest by weight"
                )
            note = "; ".join(notes)
            return Answered(policy=policy.name, members=left, allocation=found, note=note)
        notes.append(_words(found))
        out = set(found.jobs)
        left = [member for member in left if member.record.spec.name not in out]
        if not out or not left:
            break
    return _equal(view, floor, members, now_ms, notes[-1])


def _asked(
    view: StateView,
    floor: Floor,
    members: Sequence[Member],
    by: tuple[PoolPolicy, KeptAnswers],
    now_ms: int,
) -> Allocation | Unsolved:
    """Return the checked answer of a policy, or a refusal where it fails or has too many runs."""
    policy, kept = by
    refusal = _too_many(policy, members, floor)
    if refusal is not None:
        return refusal
    try:
        problem = problem_of(view, floor, members, policy, now_ms)
        return kept.of(floor.pool.name, policy, problem)
    except Exception as error:  # noqa: BLE001 - a round that ended the service would be due again
        _LOG.exception("the policy of pool %s failed", floor.pool.name)
        return Unsolved(
            code=UnsolvedCode.SOLVER_FAILED,
            subject="policy",
            message=f"the policy failed: {type(error).__name__}: {error}",
            remedy="choose another policy for the pool, and report this",
        )


def _too_many(policy: PoolPolicy, members: Sequence[Member], floor: Floor) -> Unsolved | None:
    """Return a refusal if ``policy`` would take too long: no run is served while it computes."""
    runs, most, each = len(members), policy.jobs_max, policy.jobs_per_gpu_max
    if most is not None and len(floor.flavors) > FLAVORS_USUAL:
        most = most * FLAVORS_USUAL // len(floor.flavors)
    what = None
    if most is not None and runs > most:
        what = f"{runs} runs: {most} are the most"
    elif each is not None:
        crowd = next((c for c in _crowds(members, floor) if c[0] > each * c[1]), None)
        if crowd is not None:
            what = f"{crowd[0]} runs on {crowd[1]} GPUs: {each} a GPU are the most"
    if what is None:
        return None
    return Unsolved(
        code=UnsolvedCode.NOT_APPLICABLE,
        subject="jobs",
        message=f"{policy.name} takes too long for {what}",
        remedy="choose another policy for the pool",
    )


def _crowds(members: Sequence[Member], floor: Floor) -> Iterator[tuple[int, int]]:
    """Yield, for each run's set of flavors, the number of runs confined to it, and its GPUs."""
    runs_on = Counter(
        frozenset(place for place, rate in enumerate(member.rates) if rate) for member in members
    )
    for flavors in runs_on:
        inside = sum(runs for others, runs in runs_on.items() if others <= flavors)
        yield inside, sum(floor.gpus[place] for place in flavors)


def _equal(
    view: StateView, floor: Floor, members: Sequence[Member], now_ms: int, why: str
) -> Answered:
    found = BY_WEIGHT.solve(problem_of(view, floor, members, BY_WEIGHT, now_ms))
    assert isinstance(found, Allocation), found
    note = f"all share by weight: {why}"
    return Answered(policy=BY_WEIGHT.name, members=members, allocation=found, note=note)


def _words(refusal: Unsolved) -> str:
    """Return a refusal as text without names: owners in a pool do not see each other's runs.

    The shares of the round say which runs were left out, and the log says what a policy did wrong.
    """
    if refusal.code is UnsolvedCode.SOLVER_FAILED:
        _LOG.error("a policy failed: %s", refusal.message)
        return f"the policy failed; {refusal.remedy}"
    told = f"{refusal.message}; {refusal.remedy}"
    for named, instead in (("job", "a run"), ("entity", "an owner")):
        name = f"{named} {refusal.subject}"
        told = told.replace(f"{name}:", instead).replace(name, instead)
    count = len(refusal.jobs)
    return f"{counted(count, 'run')} left out ({told})" if count else told
