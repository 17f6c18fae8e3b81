"""The shares of a pool's runs in a round: the answer of the pool's policy, or shares by weight.

Bad numbers of one run, or an error in the policy, must not stop the round for the other runs. If a
policy has no answer because of some runs, it names these runs. The named runs are left out of the
round, and the policy is called again. If the policy still has no answer, all runs share by weight,
which needs no solver. Each owner then gets its target share instead of the share that the policy
would compute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.loop.rounds.kept_answers import KeptAnswers
from quorate.loop.rounds.round_problem import PoolPolicy, problem_of
from quorate.loop.rounds.round_snapshot import Floor, Member
from quorate.model.events import RoundCause, RoundCode
from quorate.model.state.state_view import StateView
from quorate.policy.allocation import Allocation, Unsolved, UnsolvedCode, solver_failed
from quorate.policy.policies.by_weight import BY_WEIGHT

ASKED_MAX: Final = 4
"""How often a policy is called in one round, at most.

If a policy has no answer because of some runs, the next call leaves these runs out.
"""
FLAVORS_USUAL: Final = 3
"""A policy's limit on jobs is lowered if the pool has more than ``FLAVORS_USUAL`` flavors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The shares of a round, with the policy that computed them and the runs that get them.

    ``causes`` say what was wrong with the policy's answer; the round records them.
    """

    policy: str
    members: Sequence[Member]
    allocation: Allocation
    causes: tuple[RoundCause, ...] = ()
    is_thrifty: bool = False
    """Whether the policy considers the price of GPUs."""
    is_for_the_last: bool = False
    """Whether the policy's objective is that the last run ends as early as possible."""


def answered(
    view: StateView,
    floor: Floor,
    members: Sequence[Member],
    by: tuple[PoolPolicy | None, KeptAnswers],
    now_ms: int,
) -> Answered:
    """Return the answer by which ``members`` share the next round of a pool.

    A cached answer to an equal problem is used again. If the policy has no answer, the runs share
    by weight. Sharing by weight has an answer for all runs that can run. So if sharing by weight
    fails, that is a bug, and the error is raised.
    """
    policy, kept = by
    if policy is None:
        absent = RoundCause(RoundCode.NO_POLICY, floor.pool.policy or "")
        return _equal(view, floor, members, now_ms, absent)
    left = list(members)
    causes: list[RoundCause] = []
    for _ in range(ASKED_MAX):
        found = _asked(view, floor, left, (policy, kept), now_ms)
        if isinstance(found, Allocation):
            kept.failures.worked(floor.pool.name)
            if found.unfinished:
                more = len(found.unfinished)
                causes.append(RoundCause(RoundCode.UNFINISHED, policy.name, more))
            if found.dropped:
                missed = len(found.dropped)
                causes.append(RoundCause(RoundCode.DEADLINES_MISSED, policy.name, missed))
            return Answered(
                policy=policy.name,
                members=left,
                allocation=found,
                causes=tuple(causes),
                is_thrifty=policy.reads_costs,
                is_for_the_last=policy.is_for_the_last,
            )
        causes.append(found if isinstance(found, RoundCause) else _cause(policy.name, found))
        out = set() if isinstance(found, RoundCause) else set(found.jobs)
        left = [member for member in left if member.record.spec.name not in out]
        if not out or not left:
            break
    return _equal(view, floor, members, now_ms, causes[-1])


def _asked(
    view: StateView,
    floor: Floor,
    members: Sequence[Member],
    by: tuple[PoolPolicy, KeptAnswers],
    now_ms: int,
) -> Allocation | Unsolved | RoundCause:
    """Return the checked answer of a policy, its refusal, or why the policy was not called.

    If the policy fails, the failure is logged.
    """
    policy, kept = by
    pool = floor.pool.name
    too_many = _too_many(policy, members, floor)
    if too_many is not None:
        return too_many
    try:
        problem = problem_of(view, floor, members, policy, now_ms)
        found = kept.of(pool, policy, problem)
    except Exception as error:  # noqa: BLE001 - a bug here must not end the service
        refusal = solver_failed(
            f"raised {type(error).__name__}: {error}",
            "choose another policy for the pool, and report this",
        )
        kept.failures.failed(pool, policy.name, refusal, error)
        return refusal
    if isinstance(found, Unsolved) and found.code is UnsolvedCode.SOLVER_FAILED:
        kept.failures.failed(pool, policy.name, found)
    return found


def _too_many(policy: PoolPolicy, members: Sequence[Member], floor: Floor) -> RoundCause | None:
    """Return a cause if ``policy`` would take too long with so many runs; else None.

    While a policy computes, the engine serves no run.
    """
    runs, most, each = len(members), policy.jobs_max, policy.jobs_per_gpu_max
    if most is not None and len(floor.flavors) > FLAVORS_USUAL:
        most = most * FLAVORS_USUAL // len(floor.flavors)
    if most is not None and runs > most:
        return RoundCause(RoundCode.TOO_MANY_RUNS, policy.name, runs, limit=most)
    if each is not None:
        for crowd, gpus in _crowds(members, floor):
            if crowd > each * gpus:
                return RoundCause(RoundCode.TOO_CROWDED, policy.name, crowd, gpus, each)
    return None


def _crowds(members: Sequence[Member], floor: Floor) -> Iterator[tuple[int, int]]:
    """Yield (number of runs, number of GPUs) for each set of flavors that some run can use.

    A run is counted if it can use no flavor outside the set. The GPUs are the pool's GPUs of the
    flavors in the set.
    """
    runs_on = Counter(
        frozenset(place for place, rate in enumerate(member.rates) if rate) for member in members
    )
    for flavors in runs_on:
        inside = sum(runs for others, runs in runs_on.items() if others <= flavors)
        yield inside, sum(floor.gpus[place] for place in flavors)


def _equal(
    view: StateView, floor: Floor, members: Sequence[Member], now_ms: int, why: RoundCause
) -> Answered:
    """Return shares by weight for all ``members``, with the cause ``why``."""
    found = BY_WEIGHT.solve(problem_of(view, floor, members, BY_WEIGHT, now_ms))
    assert isinstance(found, Allocation), found
    return Answered(policy=BY_WEIGHT.name, members=members, allocation=found, causes=(why,))


def _cause(policy: str, refusal: Unsolved) -> RoundCause:
    """Return the recorded form of a policy's refusal.

    The recorded cause names no run, because owners in a pool do not see each other's runs. The
    shares of the round show which runs were left out. The log has the text of a policy's error.
    """
    if refusal.code is UnsolvedCode.SOLVER_FAILED:
        return RoundCause(RoundCode.FAILED, policy)
    told = f"{refusal.message}; {refusal.remedy}"
    for named, instead in (("job", "a run"), ("entity", "an owner")):
        name = f"{named} {refusal.subject}"
        told = told.replace(f"{name}:", instead).replace(name, instead)
    runs = len(refusal.jobs)
    code = RoundCode.LEFT_OUT if runs else RoundCode.UNSOLVED
    return RoundCause(code, policy, runs, note=told)
