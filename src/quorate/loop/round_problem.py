"""A pool at the end of a round as the problem that its policy is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np

from quorate.core.round_checks import target_ppm
from quorate.loop.round_floor import Floor, Member
from quorate.loop.round_pairs import pairs_of
from quorate.model.amounts import PPM, SECOND_MS
from quorate.model.specs import Pool
from quorate.model.view import StateView
from quorate.policy.allocation import Allocation, Unsolved
from quorate.policy.problem import Entity, Floats, Ints, Problem

MICRO: Final = float(PPM)


class PoolPolicy(Protocol):
    """What a pool asks of a policy: its name, its answer, and whether it knows owners and pairs."""

    @property
    def name(self) -> str:
        """The name that pools know it by."""
        ...

    @property
    def reads_entities(self) -> bool:
        """Whether it divides by owner first, and then among their runs."""
        ...

    @property
    def reads_pairs(self) -> bool:
        """Whether it lets two runs share GPUs."""
        ...

    @property
    def solve(self) -> Callable[[Problem], Allocation | Unsolved]:
        """The function that answers."""
        ...


def problem_of(
    view: StateView, floor: Floor, members: Sequence[Member], policy: PoolPolicy, now_ms: int
) -> Problem:
    """Return what ``policy`` is asked: owners are the entities, by the targets admin has set.

    A run's own weight divides what its owner has, and nothing else. A policy that knows no entities
    is given weights that come to the same: those of an owner's runs add up to the owner's.
    """
    specs = [member.record.spec for member in members]
    owners = list(dict.fromkeys(spec.owner for spec in specs))
    targets = {owner: max(1, target_ppm(view, owner)) / MICRO for owner in owners}
    weights = np.array([1.0 if s.rounds is None else s.rounds.weight for s in specs])
    of = np.array([owners.index(spec.owner) for spec in specs], dtype=np.int64)
    if not policy.reads_entities:
        sums = np.bincount(of, weights=weights, minlength=len(owners))
        weights = np.array([targets[owner] for owner in owners])[of] * weights / sums[of]
    rates = np.array([member.rates for member in members], dtype=np.float64) / MICRO
    scales = np.array([spec.gpus for spec in specs], dtype=np.int64)
    gpus = np.array(floor.gpus, dtype=np.int64)
    return Problem(
        flavors=floor.flavors,
        gpus=gpus,
        jobs=tuple(spec.name for spec in specs),
        rates=rates,
        scales=scales,
        weights=weights,
        steps_left=np.array([_steps_left(m, floor.pool) for m in members]),
        ages_s=np.array([_age_s(m, now_ms) for m in members]),
        isolated_s=_isolated_s(members, rates, scales, gpus),
        deadlines_s=np.array([_deadline_s(m, now_ms) for m in members]),
        entities=tuple(Entity(name=owner, weight=targets[owner]) for owner in owners),
        entity_of=of,
        pairs=pairs_of(view, floor, members) if policy.reads_pairs else None,
    )


def _steps_left(member: Member, pool: Pool) -> float:
    """Return the steps left; where nobody says how many there are, what takes a usual while."""
    work = member.record.spec.rounds
    assert work is not None, member
    if work.total_steps is not None:
        return float(max(1, work.total_steps - member.known.steps))
    return max(1.0, max(member.rates) / MICRO * pool.expected_duration_ms / SECOND_MS)


def _age_s(member: Member, now_ms: int) -> float:
    started_ms = member.record.started_ms
    return 0.0 if started_ms is None else (now_ms - started_ms) / SECOND_MS


def _deadline_s(member: Member, now_ms: int) -> float:
    work = member.record.spec.rounds
    if work is None or work.slo_ms is None:
        return float("inf")
    return max(1.0, (member.record.submitted_ms + work.slo_ms - now_ms) / SECOND_MS)


def _isolated_s(members: Sequence[Member], rates: Floats, scales: Ints, gpus: Ints) -> Floats:
    """Return how long what each run has done would have taken on an equal share of every flavor."""
    equal = np.minimum(1.0, gpus.sum() / (len(members) * scales))
    alone = (rates @ (gpus / gpus.sum())) * equal
    done = np.array([member.known.steps for member in members], dtype=np.float64)
    found: Floats = np.divide(done, alone, out=np.zeros(len(members)), where=alone > 0)
    return found
