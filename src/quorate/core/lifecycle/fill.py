"""Fill: a run works on slots that other runs keep as spares, until those runs need the spares.

The run that fills a spare is its filler. The lease of the spare ends on the filled slots, and
payers of the filler pay for the filler's work there. The payer of the spare keeps room and money
until the spare returns (``spares.py``). The filler uses free slots first, and as few spares as
possible. See docs/design/lifecycle.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.holds import hold_duration_ms
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.spares import part_with
from quorate.core.lifecycle.starts import write_start
from quorate.core.profile.lease_ends import lease_end_ms
from quorate.model.events import EndReason, NodeStatus, Slots, SpareFilled
from quorate.model.specs import Run
from quorate.model.state.free_slots import IslandKey, ordinals
from quorate.model.state.records import ReservationRecord, RunRecord
from quorate.model.state.state_view import StateView


class Filled(Struct, frozen=True):
    """The placement and payers of a run, and the slots that it takes from each spare's lease."""

    admitted: Admitted
    spares: tuple[tuple[str, Slots], ...]


class _Offer(Struct, frozen=True, gc=False):
    """One slot of a spare."""

    lease: str
    place: IslandKey
    node: str
    ordinal: int


def kept_from_fill(view: StateView, run: Run, now_ms: int, *, exempt: str = "") -> set[IslandKey]:
    """Return the islands whose spares ``run`` may not fill, because a conflict will cut them.

    ``exempt`` is the reservation of ``run`` itself; its conflict does not matter.
    """
    gone_ms = now_ms + hold_duration_ms(run, view.pools[run.pool])
    return {
        IslandKey(run.pool, record.slice.flavor, domain)
        for name, record in view.reservations.items()
        if name != exempt and _will_cut(view, record, run.pool, gone_ms)
        for domain, _ in record.slice.domains
    }


def _will_cut(view: StateView, record: ReservationRecord, pool: str, before_ms: int) -> bool:
    """Return whether a reservation in ``pool`` has a start by conflict before ``before_ms``.

    Such a conflict cuts spares before it draws runs.
    """
    planned_ms = record.planned_start_ms
    if not record.by_conflict or view.runs[record.made.run].spec.pool != pool:
        return False
    return planned_ms is not None and planned_ms < before_ms


def admit_on_spares(
    view: StateView,
    run: Run,
    now_ms: int,
    *,
    has_executor: bool,
    kept: Collection[IslandKey] = (),
) -> Filled | None:
    """Return how ``run`` can start on spares; None if it cannot.

    The caller knows that ``run`` does not fit on free slots alone. The payers of the spares keep
    their room and money, and payers of ``run`` pay as well. The search finds how many spare slots
    are needed, and takes them first from the domain with the most free GPUs. Slots that the run
    does not need stay spares. Spares on islands in ``kept`` are not used.
    """
    offers = [offer for offer in _offers(view, run, now_ms) if offer.place not in kept]
    if not _enough(view, run, offers):
        return None

    def attempt(found: Sequence[_Offer]) -> Admitted | None:
        trial = view.overlay()
        trial.vacate(_slots(found))
        answer = admit(trial, run, now_ms, has_executor=has_executor)
        return answer if isinstance(answer, Admitted) else None

    best = attempt(offers)
    if best is None:
        return None
    low, high = 0, len(offers)
    while high - low > 1:
        middle = (low + high) // 2
        found = attempt(offers[:middle])
        if found is None:
            low = middle
        else:
            best, high = found, middle
    used = _used(offers[:high], best)
    while fewer := _without_idle(view, used, best):
        found = attempt(fewer)
        if found is None:
            break
        best, used = found, _used(fewer, found)
    return Filled(best, _by_lease(used))


def _offers(view: StateView, run: Run, now_ms: int) -> list[_Offer]:
    """Return the spare slots that ``run`` may use, in the order in which they are used.

    Domains with the most free GPUs come first, because the run lacks the fewest GPUs there. Within
    a domain, the spares of the newest runs come first.
    """
    free = {
        (flavor, domain): -left
        for flavor in run.flavors
        for left, domain in view.domain_order(run.pool, flavor)
    }
    pledged: dict[str, int] = {}
    for pledge in view.pledges.values():
        for node, mask in pledge.slots:
            pledged[node] = pledged.get(node, 0) | mask
    over_ms = _over_ms(view, run, now_ms)
    able: dict[str, bool] = {}
    ranked: list[tuple[tuple[int, str, int, str], _Offer]] = []
    for name in view.spares:
        lease = view.leases[name]
        record = view.runs[lease.fact.run]
        if record.spec.name not in able:
            able[record.spec.name] = _can_spare(view, record, run)
        if lease.ending is not None or not able[record.spec.name]:
            continue
        if over_ms is not None and lease_end_ms(view, lease, now_ms) < over_ms:
            continue
        for node, mask in lease.fact.slots:
            place = view.nodes[node].island
            if (place.flavor, place.domain) not in free or node in view.node_status:
                continue
            key = (-free[place.flavor, place.domain], place.domain, -record.seq, name)
            # A run that fills a spare may use the slots as a spare of its own. No third run may
            # fill this second spare, because its slots go back to the run that had the first spare.
            left = ordinals(mask & ~pledged.get(node, 0))
            ranked += ((key, _Offer(name, place, node, ordinal)) for ordinal in left)
    ranked.sort(key=lambda entry: (entry[0], entry[1].node, entry[1].ordinal))
    return [offer for _, offer in ranked]


def _over_ms(view: StateView, run: Run, now_ms: int) -> int | None:
    """Return when ``run`` is expected to end; None if its pool has no reservations.

    In a pool with reservations, a run may fill a spare only if the run is expected to end no later
    than the spare. Otherwise the slots would become free later than planned. A spare ends with its
    run, or by a recall.
    """
    if not any(view.runs[r.made.run].spec.pool == run.pool for r in view.reservations.values()):
        return None
    return now_ms + hold_duration_ms(run, view.pools[run.pool])


def _can_spare(view: StateView, record: RunRecord, run: Run) -> bool:
    """Return whether ``run`` may use the spares of ``record``.

    It may not use them if ``record`` itself needs them now.
    """
    if record.spec.name == run.name or record.spec.pool != run.pool:
        return False
    return record.stopping is None and not _has_lost(view, record.leases)


def _has_lost(view: StateView, leases: Iterable[str]) -> bool:
    """Return whether some of ``leases`` are on failed nodes, so that their run needs its spares."""
    return bool(view.node_status) and any(
        view.node_status.get(node) is NodeStatus.FAILED
        for name in leases
        for node, _ in view.leases[name].fact.slots
    )


def _enough(view: StateView, run: Run, offers: Sequence[_Offer]) -> bool:
    """Return whether free and offered GPUs of one flavor suffice for the run's least width."""
    spare: dict[str, int] = {}
    for offer in offers:
        spare[offer.place.flavor] = spare.get(offer.place.flavor, 0) + 1
    least = run.widths()[-1]
    return any(
        gpus - sum(left for left, _ in view.domain_order(run.pool, flavor)) >= least
        for flavor, gpus in spare.items()
    )


def _slots(offers: Iterable[_Offer]) -> Slots:
    masks: dict[str, int] = {}
    for offer in offers:
        masks[offer.node] = masks.get(offer.node, 0) | 1 << offer.ordinal
    return tuple(masks.items())


def _used(offers: Sequence[_Offer], admitted: Admitted) -> list[_Offer]:
    """Return those of ``offers`` on whose slots the run starts."""
    taken: dict[str, int] = {}
    for group in admitted.plan.groups:
        for node, mask in (*group.slots, *group.spare_slots):
            taken[node] = taken.get(node, 0) | mask
    return [offer for offer in offers if taken.get(offer.node, 0) >> offer.ordinal & 1]


def _without_idle(view: StateView, used: Sequence[_Offer], admitted: Admitted) -> list[_Offer]:
    """Return the slots in ``used`` that are still needed if the run also uses all free slots.

    If all of ``used`` are needed, the result is empty, and the caller tries no smaller set. The
    function only compares numbers of slots in each domain. So the run may not fit on the result if
    racks or whole nodes matter.
    """
    wanted: dict[str, int] = {}
    for group in admitted.plan.groups:
        gpus = sum(mask.bit_count() for _, mask in (*group.slots, *group.spare_slots))
        wanted[group.domain] = wanted.get(group.domain, 0) + gpus
    kept: list[_Offer] = []
    for place in dict.fromkeys(offer.place for offer in used):
        here = [offer for offer in used if offer.place == place]
        kept += here[: max(0, wanted[place.domain] - view.island(place).gpus_free)]
    return kept if len(kept) < len(used) else []


def _by_lease(offers: Sequence[_Offer]) -> tuple[tuple[str, Slots], ...]:
    return tuple(
        (name, _slots(offer for offer in offers if offer.lease == name))
        for name in dict.fromkeys(offer.lease for offer in offers)
    )


def write_fill(
    log: DecisionLog, run: Run, filled: Filled, *, leases_ever: int, backfill: bool
) -> None:
    """Write the events of the spares, then the leases of ``run``.

    For each spare, these are a pledge for every slot that the spare gives up, the end of its lease,
    and a new lease for the slots that it keeps. The lease ends with one event, because no work runs
    on a spare, so nothing has to stop first.
    """
    for name, slots in filled.spares:
        hold_ms = log.view.leases[name].hold_ends_ms - log.now_ms
        for number, (node, ordinal) in enumerate(_each(slots)):
            log.write(
                SpareFilled(
                    at_ms=log.now_ms,
                    actor=log.actor,
                    pledge=f"{name}#{number}",
                    lease=name,
                    filler=run.name,
                    slots=((node, 1 << ordinal),),
                    hold_gpu_ms=hold_ms,
                )
            )
        part_with(log, name, slots, EndReason.FILLED)
    write_start(log, run, filled.admitted, leases_ever=leases_ever, backfill=backfill)


def _each(slots: Slots) -> Iterator[tuple[str, int]]:
    for node, mask in slots:
        for ordinal in ordinals(mask):
            yield node, ordinal
