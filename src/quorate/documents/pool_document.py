"""Pool documents, which say how nodes are shared, and System documents, with global settings."""

from __future__ import annotations

from typing import Final

from quorate.documents import values
from quorate.documents.field_reader import At, Fields, fields_of, mapped
from quorate.documents.head import Head
from quorate.documents.labels import pool_selector
from quorate.documents.pool_rates import throughputs
from quorate.documents.times import any_duration, duration, positive_duration
from quorate.model.amounts import DAY_MS, HOUR_MS, PPM, SECOND_MS
from quorate.model.rounds_bounds import COST_MAX, COST_MIN
from quorate.model.specs import Discipline, Placement, Pool, PoolExecutor, System
from quorate.model.state.meters import KEPT_MS

_POOL: Final = frozenset(
    {
        "selector",
        "discipline",
        "policy",
        "roundLength",
        "placement",
        "wholeNodes",
        "reservationNotice",
        "minRuntime",
        "coolDown",
        "maxGrace",
        "disruptionRate",
        "maxCollateral",
        "defaultExpectedDuration",
        "reservationDepth",
        "firmHorizon",
        "throughputs",
        "costs",
        "executor",
        "cluster",
    }
)
_NOT_ANY_MORE: Final = {
    "disruptionGPUHoursPerDay": "write disruptionRate, the part of the pool's GPUs whose work "
    "conflicts may cost, such as 0.01; 0 forbids conflicts"
}
_SYSTEM: Final = frozenset({"sensitivePoolSize", "budgetPeriodDays", "halfLife", "weights"})
_WEIGHTS: Final = frozenset({"instantShare"})
_DISCIPLINE: Final = values.choice(Discipline)
_PLACEMENT: Final = values.choice(Placement)
_EXECUTOR: Final = values.choice(PoolExecutor)
_COLLATERAL: Final = values.whole(low=1, high=values.COUNT_MAX)
_SECOND_UP: Final = duration(low_ms=SECOND_MS)
"""Reads a round length, a notice or a minRuntime, which are at least a second.

Such short times are useful in experiments. The cool-down of a pool is at least a minute: with a
shorter cool-down, runs could stop each other in turn, and no run would make progress.
"""
_PERIOD_DAYS: Final = values.whole(low=1, high=KEPT_MS // DAY_MS)
_HALF_LIFE: Final = duration(low_ms=HOUR_MS)
_COST: Final = values.decimal_of(
    factor=PPM, unit="millionth", low=round(COST_MIN * PPM), high=round(COST_MAX * PPM)
)
_PART: Final = values.decimal_of(factor=PPM, unit="millionth", low=0, high=PPM)


def read_pool(spec: object, at: At, head: Head) -> Pool | None:
    """Return the pool; report its faults and return None if it is faulty."""
    fields = fields_of(spec, at, _POOL, _NOT_ANY_MORE)
    if fields is None:
        return None
    unset = Pool(name=head.name)
    discipline = fields.optional("discipline", _DISCIPLINE, unset.discipline)
    _check_rounds(fields, discipline)
    executor = fields.maybe("executor", _EXECUTOR)
    _check_cluster(fields, executor)
    return Pool(
        name=head.name,
        selector=fields.optional("selector", pool_selector, ()),
        discipline=discipline,
        policy=fields.maybe("policy", values.name),
        round_ms=fields.optional("roundLength", _SECOND_UP, unset.round_ms),
        placement=fields.optional("placement", _PLACEMENT, unset.placement),
        whole_nodes=fields.optional("wholeNodes", values.truth, default=False),
        notice_ms=fields.optional("reservationNotice", _SECOND_UP, unset.notice_ms),
        runtime_min_ms=fields.maybe("minRuntime", _SECOND_UP),
        cool_down_ms=fields.maybe("coolDown", any_duration),
        grace_max_ms=fields.optional("maxGrace", any_duration, unset.grace_max_ms),
        disruption_rate_ppm=fields.optional("disruptionRate", _PART, unset.disruption_rate_ppm),
        collateral_max=fields.optional("maxCollateral", _COLLATERAL, unset.collateral_max),
        expected_duration_ms=fields.optional(
            "defaultExpectedDuration", positive_duration, unset.expected_duration_ms
        ),
        reservation_depth=fields.optional(
            "reservationDepth", values.count, unset.reservation_depth
        ),
        firm_horizon_ms=fields.optional("firmHorizon", any_duration, unset.firm_horizon_ms),
        throughputs=fields.optional("throughputs", throughputs, ()),
        costs_micros=fields.optional("costs", _costs, ()),
        executor=executor,
        cluster=fields.maybe("cluster", values.name),
    )


def _costs(value: object, at: At) -> tuple[tuple[str, int], ...] | None:
    """Return the cost of one GPU-hour of each flavor, in millionths."""
    if value == {}:
        at.fault("must give the cost of at least one flavor", "add one, e.g. {v100: 2.48}")
        return None
    return mapped(value, at, key=values.name, read=_COST)


def _check_cluster(fields: Fields, executor: PoolExecutor | None) -> None:
    if executor is PoolExecutor.KUBERNETES:
        if "cluster" not in fields:
            fields.at("cluster").fault(
                "is required when executor is kubernetes",
                "name a cluster of the service's configuration, e.g. cluster: west",
            )
    elif "cluster" in fields:
        fields.at("cluster").fault(
            "is for pools of executor kubernetes",
            "remove the field cluster, or set executor: kubernetes",
        )


def _check_rounds(fields: Fields, discipline: Discipline) -> None:
    if discipline is Discipline.ROUNDS:
        if "policy" not in fields:
            fields.at("policy").fault(
                "is required when discipline is rounds",
                ("name a policy, e.g. policy: max_min_fairness"),
            )
        return
    for name in ("policy", "roundLength", "throughputs", "costs"):
        if name in fields:
            fields.at(name).fault(
                "is for pools of discipline rounds", f"remove {name} or set discipline: rounds"
            )


def read_system(spec: object, at: At, head: Head) -> System | None:
    """Return the system's settings; report their faults and return None if they are faulty."""
    del head  # There is one System, and it stores no name.
    fields = fields_of(spec, at, _SYSTEM)
    if fields is None:
        return None
    unset = System()
    return System(
        sensitive_pool_size=fields.maybe("sensitivePoolSize", values.count),
        budget_period_days=fields.optional(
            "budgetPeriodDays", _PERIOD_DAYS, unset.budget_period_days
        ),
        half_life_ms=fields.optional("halfLife", _HALF_LIFE, unset.half_life_ms),
        instant_weight_ppm=fields.optional("weights", _instant_ppm, unset.instant_weight_ppm),
    )


def _instant_ppm(value: object, at: At) -> int | None:
    """Return the weight of an owner's present use in its share, in millionths.

    Past use has the rest of the weight.
    """
    fields = fields_of(
        value, at, _WEIGHTS, {"decayedShare": ("write 1 minus this value as instantShare")}
    )
    if fields is None:
        return None
    return fields.optional("instantShare", _PART, System().instant_weight_ppm)
