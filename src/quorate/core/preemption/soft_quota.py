"""Decides by soft quotas which runs are burst, and which owners may call a conflict.

Only a run of an owner with a stated target share can be burst. An owner without a stated target has
an equal part of the share that the stated targets leave. This part affects only the order of the
queue.
"""

from __future__ import annotations

from quorate.core.preemption.cut_order import Burst
from quorate.core.tenancy.owner_scores import budget_used
from quorate.core.tenancy.share_score import ONE
from quorate.model.amounts import PPM
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


def bursting(view: StateView) -> Burst | None:
    """Return the function ``is_burst``; None if no quota states a target share."""
    if not view.soft.has_targets:
        return None
    return is_burst


def is_burst(view: StateView, record: RunRecord) -> bool:
    """Return whether the owner of a running run would still have its target share without it."""
    owner = view.owners.get(record.spec.owner)
    target_ppm = None if owner is None else owner.quota.fair_share_target_ppm
    record = view.runs[record.spec.name]  # In ``view``, the run may have lost leases by cuts.
    if target_ppm is None or not record.leases:
        return False
    flavor = _flavor_of(view, next(iter(record.leases)))
    rest = sum(
        view.leases[name].gpus
        for name in view.owner_leases.get(record.spec.owner, ())
        if name not in record.leases
        and view.leases[name].ending is None
        and _flavor_of(view, name) == flavor
    )
    total, _ = view.flavor_gpus(flavor)
    return rest * PPM >= target_ppm * total


def _flavor_of(view: StateView, lease: str) -> str:
    return view.envelopes[view.leases[lease].fact.payer].spec.flavor


def why_no_conflict(view: StateView, record: RunRecord, now_ms: int, flavor: str = "") -> str:
    """Return why soft quotas of a run's owner forbid a conflict for the run; empty if they do not.

    The reason may be a used-up budget, or a target share that the owner would exceed in ``flavor``
    with this run. If ``flavor`` is empty, all existing flavors that the run asks for are checked,
    and the owner must exceed its target share in each of them.
    """
    run = record.spec
    owner = view.owners.get(run.owner)
    if owner is None:
        return ""
    used = budget_used(view, owner, now_ms)
    if used is not None and used >= ONE:
        return f"{run.owner} has used {used * 100 // ONE} % of its budget"
    target_ppm = owner.quota.fair_share_target_ppm
    if target_ppm is None:
        return ""
    there = [each for each in run.flavors if view.flavor_gpus(each)[0]]
    flavors = (flavor,) if flavor else there
    over = [e for e in flavors if _gpus_then(view, record, e) > _target(view, target_ppm, e)]
    if len(over) < len(flavors) or not flavors:
        return ""
    return f"it would take {run.owner} beyond its target share of {' or '.join(flavors)}"


def _target(view: StateView, target_ppm: int, flavor: str) -> int:
    """Return the target share as a number of whole GPUs of ``flavor``."""
    return view.flavor_gpus(flavor)[0] * target_ppm // PPM


def _gpus_then(view: StateView, record: RunRecord, flavor: str) -> int:
    """Return how many GPUs of ``flavor`` the owner would have if this run ran too.

    The run is counted at its least width. The owner's earlier starts by conflict are counted, too.
    """
    meter = view.meters.get((record.spec.owner, flavor))
    gpus = record.spec.widths()[-1] + (0 if meter is None else meter.amount)
    return gpus + _promised_gpus(view, record, flavor)


def _promised_gpus(view: StateView, record: RunRecord, flavor: str) -> int:
    """Return how many GPUs earlier starts by conflict will give the owner of ``record``.

    A start is earlier if its reservation was made before the reservation of this run.
    """
    mine = None if record.reservation is None else view.reservations[record.reservation]
    return sum(
        other.slice.gpus
        for other in view.reservations.values()
        if (other.by_conflict or other.conflict)
        and other.slice.flavor == flavor
        and (mine is None or other.seq < mine.seq)
        and view.runs[other.made.run].spec.owner == record.spec.owner
    )
