"""The problem for a pool's policy, at the end of a round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from quorate.core.rounds.round_checks import targets_ppm
from quorate.loop.rounds.round_pairs import PAIRS_MAX, pairs_of
from quorate.loop.rounds.round_snapshot import Floor, Member
from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.rounds_bounds import RATE_MAX, WEIGHT_MAX, WEIGHT_MIN
from quorate.model.specs import Pool, Run
from quorate.model.state.state_view import StateView
from quorate.policy.askable import Asked
from quorate.policy.problem import Entity, Floats, Ints, Problem

MICRO: Final = float(PPM)

# The input of a policy is kept within bounds in which all policies have answers. Values in
# documents have bounds already, but reports of runs and values in old ledgers have none.
FLAVORS_APART: Final = 10_000.0
"""The largest ratio of a run's rates on two flavors; the smaller rate is raised if necessary."""
WORK_MAX: Final = 200_000_000
"""The limit on the work (``work_count``) of a policy that can stop early: about one second."""
SECONDS_MIN: Final = 1.0
SECONDS_MAX: Final = 100_000_000.0
"""The most work that a problem states for a run, left or done: about three years.

The work that is left is counted in seconds on the run's fastest flavor. The work that is done is
counted in seconds on an equal share of every flavor.
"""


class PoolPolicy(Asked, Protocol):
    """The properties of a policy that matter to a pool.

    The properties say which fields of a problem the policy uses, and how many runs a problem may
    have.
    """

    @property
    def reads_entities(self) -> bool:
        """Whether the policy divides first among owners, and then among the runs of each owner."""
        ...

    @property
    def reads_pairs(self) -> bool:
        """Whether the policy lets two runs share GPUs."""
        ...

    @property
    def reads_progress(self) -> bool:
        """Whether the policy's answer depends on values that change as runs work, such as ages."""
        ...

    @property
    def is_for_the_last(self) -> bool:
        """Whether the policy's objective is that the last run ends as early as possible."""
        ...

    @property
    def is_smooth(self) -> bool:
        """Whether a small change of rates changes the share of each run only a little."""
        ...

    @property
    def pairs_max(self) -> int | None:
        """The most pairs with which a pool calls the policy; None for any number."""
        ...

    @property
    def jobs_max(self) -> int | None:
        """The most runs with which a pool calls the policy; None for any number."""
        ...

    @property
    def jobs_per_gpu_max(self) -> int | None:
        """The most runs per GPU with which a pool calls the policy; None for any number."""
        ...


def problem_of(
    view: StateView, floor: Floor, members: Sequence[Member], policy: PoolPolicy, now_ms: int
) -> Problem:
    """Return the problem for ``policy``; its entities are owners, weighted by their targets.

    The weights of runs only divide an owner's part among the owner's runs. If the policy reads no
    entities, the weights of an owner's runs are scaled to add up to the owner's target.
    """
    specs = [member.record.spec for member in members]
    owners = list(dict.fromkeys(spec.owner for spec in specs))
    targets = {owner: max(1, ppm) / MICRO for owner, ppm in targets_ppm(view, owners).items()}
    places = {owner: place for place, owner in enumerate(owners)}
    weights = np.array([_weight(spec) for spec in specs])
    of = np.array([places[spec.owner] for spec in specs], dtype=np.int64)
    if not policy.reads_entities:
        sums = np.bincount(of, weights=weights, minlength=len(owners))
        weights = np.array([targets[owner] for owner in owners])[of] * weights / sums[of]
    rates = _bounded(np.array([member.rates for member in members], dtype=np.float64) / MICRO)
    fastest = rates.max(axis=1)
    scales = np.array([spec.gpus for spec in specs], dtype=np.int64)
    gpus = np.array(floor.gpus, dtype=np.int64)
    most = PAIRS_MAX if policy.pairs_max is None else policy.pairs_max
    seconds = _seconds_left(members, fastest, floor.pool)
    return Problem(
        flavors=floor.flavors,
        gpus=gpus,
        jobs=tuple(spec.name for spec in specs),
        rates=rates,
        scales=scales,
        weights=weights,
        steps_left=fastest * seconds,
        ages_s=np.array([_age_s(m, now_ms) for m in members]),
        isolated_s=_isolated_s(members, rates, scales, gpus),
        deadlines_s=_deadlines_s(members, seconds, floor.pool, now_ms),
        costs=_costs(floor) if policy.reads_costs else None,
        entities=tuple(Entity(name=owner, weight=targets[owner]) for owner in owners),
        entity_of=of,
        pairs=pairs_of(view, floor, members, most) if policy.reads_pairs else None,
        work_max=WORK_MAX,
    )


def _costs(floor: Floor) -> Floats:
    """Return the price of one GPU-hour of each flavor; 0 if the pool states no price."""
    known = dict(floor.pool.costs_micros)
    return np.array([known.get(flavor, 0) for flavor in floor.flavors]) / MICRO


def _weight(run: Run) -> float:
    weight = 1.0 if run.rounds is None else run.rounds.weight
    return min(max(weight, WEIGHT_MIN), WEIGHT_MAX)


def _bounded(rates: Floats) -> Floats:
    """Return ``rates`` limited to ``RATE_MAX``, and raised where a run's rates differ too much.

    A rate is raised if the run's fastest rate is more than ``FLAVORS_APART`` times as high. These
    bounds are needed because a measured rate comes from the run's own reports, and may have any
    value.
    """
    found = np.minimum(rates, RATE_MAX)
    least = found.max(axis=1, keepdims=True) / FLAVORS_APART
    bounded: Floats = np.where(found > 0, np.maximum(found, least), 0.0)
    return bounded


def _seconds_left(members: Sequence[Member], fastest: Floats, pool: Pool) -> Floats:
    """Return how long each run still needs on the flavor where it is fastest.

    For a run without a number of steps, the pool's expected duration is used.
    """
    usual_s = pool.expected_duration_ms / SECOND_MS
    left = np.array([_steps_left(member) for member in members])
    seconds = np.where(left > 0, left / fastest, usual_s)
    bounded: Floats = np.clip(seconds, SECONDS_MIN, SECONDS_MAX)
    return bounded


def _steps_left(member: Member) -> float:
    """Return how many steps a run has left, at least one; 0 if the run's total is not known."""
    work = member.record.spec.rounds
    assert work is not None, member
    total = work.total_steps
    return 0.0 if total is None else float(max(1, total - member.known.steps))


def _age_s(member: Member, now_ms: int) -> float:
    started_ms = member.record.started_ms
    return 0.0 if started_ms is None else (now_ms - started_ms) / SECOND_MS


def _deadlines_s(
    members: Sequence[Member], seconds_left: Floats, pool: Pool, now_ms: int
) -> Floats:
    """Return the time within which each run has to end.

    The time ends one round before the run's deadline, if the run can end that early. The round is a
    reserve: runs get their shares in whole rounds, so a run may be one round behind its share.
    """
    due = np.array([_deadline_s(member, now_ms) for member in members])
    found: Floats = np.maximum(due - pool.round_ms / SECOND_MS, np.minimum(due, seconds_left))
    return found


def _deadline_s(member: Member, now_ms: int) -> float:
    work = member.record.spec.rounds
    if work is None or work.slo_ms is None:
        return float("inf")
    return max(1.0, (member.record.submitted_ms + work.slo_ms - now_ms) / SECOND_MS)


def _isolated_s(members: Sequence[Member], rates: Floats, scales: Ints, gpus: Ints) -> Floats:
    """Return how long each run's work so far would have taken on an equal share of every flavor."""
    equal = np.minimum(1.0, gpus.sum() / (len(members) * scales))
    alone = (rates @ (gpus / gpus.sum())) * equal
    done = np.array([member.known.steps for member in members], dtype=np.float64)
    found = np.divide(done, alone, out=np.zeros(len(members)), where=alone > 0)
    bounded: Floats = np.minimum(found, SECONDS_MAX)
    return bounded
