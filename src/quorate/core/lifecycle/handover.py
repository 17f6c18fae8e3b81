"""Hand-over: other payers take over the same slots, and the work continues undisturbed.

When a payer of a bundle can no longer pay, new payers are searched for the whole bundle, in cover
order. The search is the same as for a start of the bundle at that instant, but on its present
slots. Either the whole bundle gets new payers, or nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from quorate.core.admission.admit import cover_request
from quorate.core.admission.bind import LeaseDraft, bind
from quorate.core.admission.cover import Covered, plan_cover
from quorate.core.admission.pack import PackPlan, PlacedGroup
from quorate.core.admission.payers import Demand, Place
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.starts import write_leases
from quorate.core.lifecycle.stops import end_lease
from quorate.core.profile.room_left import room_left
from quorate.model.events import EndReason, LeaseEnded, NodeStatus, Role, Slots, StartReason
from quorate.model.specs import EnvelopeId
from quorate.model.state.apply_event import apply
from quorate.model.state.records import Lease
from quorate.model.state.state_view import StateView


def hand_over(
    log: DecisionLog,
    run: str,
    bundle: int,
    *,
    at_ms: int,
    barred: frozenset[EnvelopeId] = frozenset(),
) -> list[str]:
    """Write the hand-over of a bundle at ``at_ms``, and return the names of its new leases.

    If no payers are found, nothing is written, and the list is empty. The envelopes in ``barred``
    do not pay.
    """
    view = log.view
    record = view.runs[run]
    if record.spec.sensitive:
        return []  # The payers of a claim pay for the whole claim in advance.
    leases = [
        lease
        for name in record.leases
        if (lease := view.leases[name]).fact.bundle == bundle and lease.ending is None
    ]
    if any(view.node_status.get(n) is NodeStatus.FAILED for le in leases for n, _ in le.fact.slots):
        return []  # The bundle waits for a spare. No new payer pays for its lost slots.
    others = [view.leases[n] for n in record.leases if view.leases[n].fact.bundle != bundle]
    if not leases:
        return []
    drafts = _repaid(log, leases, others, at_ms, barred)
    if drafts is None:
        return []
    for lease in leases:
        end_lease(log, lease.fact.lease, EndReason.HANDOVER, end_ms=at_ms)
    first = record.leases_ever
    partner = leases[0].fact.partner
    write_leases(log, run, drafts, first, StartReason.HANDOVER, start_ms=at_ms, partner=partner)
    return [f"{run}/{number}" for number in range(first, first + len(drafts))]


def _repaid(
    log: DecisionLog,
    leases: Sequence[Lease],
    others: Sequence[Lease],
    at_ms: int,
    barred: frozenset[EnvelopeId],
) -> list[LeaseDraft] | None:
    """Return drafts of the leases that replace ``leases`` at ``at_ms``; None without new payers.

    ``others`` are the leases of the run that do not change.
    """
    view, fact = log.view, leases[0].fact
    run = view.runs[fact.run].spec
    flavor = view.nodes[fact.slots[0][0]].spec.flavor
    trial = view.overlay()
    for lease in leases:
        apply(
            trial,
            LeaseEnded(
                at_ms=trial.at_ms,
                actor="",
                lease=lease.fact.lease,
                reason=EndReason.HANDOVER,
                end_ms=at_ms,
            ),
        )
    plan = PackPlan(tuple(_groups(view, leases)))
    demands = _demands(view, plan)
    request = cover_request(trial, run, flavor, at_ms, leases=others, has_executor=log.has_executor)
    request = replace(request, barred=barred)
    # The new payers must not use money that is kept for firm starts of other runs.
    answer = plan_cover(room_left(trial, run, at_ms), request, demands)
    return bind(plan, demands, answer.legs) if isinstance(answer, Covered) else None


def _groups(view: StateView, leases: Sequence[Lease]) -> list[PlacedGroup]:
    """Return the groups of ``leases`` with their slots, and the name of the place of each slot."""
    working: dict[int, list[tuple[str, int]]] = {}
    spare: dict[int, list[tuple[str, int]]] = {}
    for lease in leases:
        index = int(lease.fact.comp_path.partition("/")[2])
        into = spare if lease.fact.role is Role.SPARE else working
        into.setdefault(index, []).extend(lease.fact.slots)
    groups = []
    for index in sorted(working.keys() | spare.keys()):
        slots, spares = _merged(working.get(index, [])), _merged(spare.get(index, []))
        node = view.nodes[(slots or spares)[0][0]].spec
        groups.append(
            PlacedGroup(
                index,
                leases[0].fact.bundle,
                node.domain_key,
                sum(mask.bit_count() for _, mask in slots),
                slots,
                tuple(_place(view, name).where for name, _ in slots),
                spares,
                tuple(_place(view, name).where for name, _ in spares),
            )
        )
    return groups


def _merged(slots: Sequence[tuple[str, int]]) -> Slots:
    """Return ``slots`` with one entry per node; several payers may have slots of one node."""
    masks: dict[str, int] = {}
    for node, mask in slots:
        masks[node] = masks.get(node, 0) | mask
    return tuple(masks.items())


def _place(view: StateView, node: str) -> Place:
    spec = view.nodes[node].spec
    where = spec.domain_key if spec.rack is None else f"{spec.domain_key}/{spec.rack}"
    return Place(where, spec.location)


def _demands(view: StateView, plan: PackPlan) -> list[Demand]:
    """Return how many GPUs have to be paid for in each place, in the order of the groups."""
    totals: dict[str, Demand] = {}
    for group in plan.groups:
        for node, mask in (*group.slots, *group.spare_slots):
            place = _place(view, node)
            known = totals.get(place.where)
            gpus = mask.bit_count() + (0 if known is None else known[1])
            totals[place.where] = (place, gpus)
    return list(totals.values())
