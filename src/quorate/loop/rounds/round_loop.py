"""Rounds: from the answer of a pool's policy to the command that begins the next round.

The state of the pool becomes a ``Problem``, and the pool's policy answers it with shares. The
mechanism of rounds chooses runs by these shares, and the choice becomes a command of whole numbers.
``decide`` then checks quotas, money and room, as for any other start.

This module imports numpy. So a service imports this module only if it has pools of rounds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from quorate.core.commands import ShareOut
from quorate.core.rounds.begin_round import step_counts
from quorate.loop.rounds.kept_answers import KeptAnswers
from quorate.loop.rounds.round_answer import Answered, answered
from quorate.loop.rounds.round_choice import choose_rows
from quorate.loop.rounds.round_funds import Funds
from quorate.loop.rounds.round_problem import MICRO, PoolPolicy
from quorate.loop.rounds.round_snapshot import Floor, Keeps, Member, floor_of
from quorate.model.events import RoundCause, RoundCode, RoundGrant, RoundShare
from quorate.model.state.apply_rounds import count_steps
from quorate.model.state.records import RoundsRun
from quorate.model.state.state_view import StateView
from quorate.policy.allocation import Allocation, paired_shares, run_shares
from quorate.policy.problem import Floats

_LOG = logging.getLogger(__name__)
_MICRO_MAX: Final = float(2**62)


def share_out(
    view: StateView,
    pool: str,
    now_ms: int,
    steps: Mapping[str, int],
    kept: KeptAnswers,
) -> ShareOut:
    """Return the command that begins the next round of ``pool``; ``kept`` has the policies.

    If the policy has no answer, all runs share by weight, and the round records the cause. All runs
    keep their GPUs if no run can run, or if the choice fails because of a bug. A bug must not end
    the service: when the service restarts, the same round would be due, and would fail again.
    """
    funds = Funds(view, pool, now_ms)
    policy = kept.policy(view.pools[pool].policy)
    floor = floor_of(
        view,
        pool,
        funds,
        now_ms,
        counted=_counted(view, pool, now_ms, steps),
        keeps=_keeps(policy),
    )
    try:
        answer = _answer(view, floor, (policy, kept), now_ms)
        if answer is None:
            return _as_before(view, floor, steps, RoundCode.NOTHING_RUNS)
        return _chosen(floor, answer, funds, steps)
    except Exception:  # noqa: BLE001 - a bug here must not end the service
        _LOG.exception("the next round of pool %s could not be chosen", pool)
        return _as_before(view, floor, steps, RoundCode.NOT_CHOSEN)


def _keeps(policy: PoolPolicy | None) -> Keeps:
    """Return which changes of rates are so small that ``policy`` is not called again."""
    if policy is not None and policy.is_smooth:
        return Keeps.SMALL
    if policy is None or policy.reads_progress:
        return Keeps.NONE  # The policy is called in every round.
    return Keeps.ROUNDING


def _answer(
    view: StateView, floor: Floor, by: tuple[PoolPolicy | None, KeptAnswers], now_ms: int
) -> Answered | None:
    """Return the answer by which the round is shared; None if no run can run."""
    members = [m for m in floor.members if any(m.rates)]
    if not members or not floor.flavors:
        return None
    return answered(view, floor, members, by, now_ms)


def _chosen(floor: Floor, by_what: Answered, funds: Funds, steps: Mapping[str, int]) -> ShareOut:
    """Return the command that begins a round by a policy's answer, as far as payers have money."""
    answer = by_what.allocation
    grants = choose_rows(
        floor,
        by_what.members,
        answer,
        funds,
        is_thrifty=by_what.is_thrifty,
        is_for_the_last=by_what.is_for_the_last,
    )
    return ShareOut(
        pool=floor.pool.name,
        number=floor.number,
        policy=by_what.policy,
        flavors=floor.flavors,
        gpus=floor.gpus,
        shares=_shares(floor, by_what.members, answer),
        prices=() if answer.prices is None else tuple(_micro(answer.prices)),
        grants=grants,
        steps=_reported(floor, steps),
        causes=by_what.causes,
    )


def _counted(
    view: StateView, pool: str, now_ms: int, steps: Mapping[str, int]
) -> dict[str, RoundsRun]:
    """Return the records of runs as they will be after the command has counted ``steps``."""
    found = {}
    for count in step_counts(view, pool, steps.items(), now_ms):
        member = found[count.run] = view.in_rounds[count.run].copy()
        count_steps(view, member, count, now_ms)
    return found


def _shares(floor: Floor, members: Sequence[Member], answer: Allocation) -> tuple[RoundShare, ...]:
    """Return the shares of all runs, pairs included, in whole millionths."""
    total = run_shares(answer, len(members))
    names = [member.record.spec.name for member in members]
    by_name = dict(zip(names, map(tuple, _micro(total)), strict=True))
    paired = _paired_shares(names, answer)
    nothing = (0,) * len(floor.flavors)
    return tuple(
        RoundShare(
            name, by_name.get(name, nothing), member.rates, member.measured, paired.get(name, ())
        )
        for member in floor.members
        if (name := member.record.spec.name)
    )


def _paired_shares(names: Sequence[str], answer: Allocation) -> dict[str, tuple[int, ...]]:
    """Return the shares that runs have in pairs, in whole millionths, by run.

    Runs without a share in a pair are absent.
    """
    if len(answer.shares) == len(names):
        return {}
    parts = _micro(paired_shares(answer, len(names)))
    return {name: tuple(part) for name, part in zip(names, parts, strict=True) if any(part)}


def _micro(amounts: Floats) -> list[Any]:
    """Return ``amounts`` in whole millionths; a policy's numbers are rounded only here.

    An amount that is too large to be recorded becomes the largest amount that can be recorded.
    """
    bounded = np.clip(amounts * MICRO, -_MICRO_MAX, _MICRO_MAX)
    whole: list[Any] = np.rint(bounded).astype(np.int64).tolist()
    return whole


def _reported(floor: Floor, steps: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    names = (member.record.spec.name for member in floor.members)
    return tuple((name, steps[name]) for name in names if name in steps)


def _as_before(
    view: StateView, floor: Floor, steps: Mapping[str, int], code: RoundCode
) -> ShareOut:
    """Return a round in which every run keeps its GPUs."""
    grants = []
    for member in floor.members:
        leases = [view.leases[name] for name in member.record.leases]
        if leases and all(lease.ending is None for lease in leases):
            fact = leases[0].fact
            flavor = view.envelopes[fact.payer].spec.flavor
            grants.append(RoundGrant(member.record.spec.name, flavor, partner=fact.partner))
    nothing = (0,) * len(floor.flavors)
    return ShareOut(
        pool=floor.pool.name,
        number=floor.number,
        policy=floor.pool.policy or "",
        flavors=floor.flavors,
        gpus=floor.gpus,
        shares=tuple(
            RoundShare(m.record.spec.name, nothing, m.rates, m.measured) for m in floor.members
        ),
        grants=tuple(grants),
        steps=_reported(floor, steps),
        causes=(RoundCause(code, floor.pool.policy or ""),),
    )
