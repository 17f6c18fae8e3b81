"""The effect of a decision on runs that continue: takeovers, widths, payers. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.documents.times import time_text
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    Role,
    RunEnded,
    RunRequeued,
    RunStopping,
    StartReason,
    lease_gpus,
)
from quorate.model.state.records import Lease
from quorate.views.word_forms import gpus, slots

Places = dict[str, int]
"""The slots on each node, as a bit mask."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The slots that a run works on, and its spare slots, by the index of their group."""

    working: dict[str, Places] = field(default_factory=dict)
    spare: dict[str, Places] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """The number of GPUs that the run works on."""
        return sum(_count(places) for places in self.working.values())

    @property
    def gpus_spare(self) -> int:
        """The number of GPUs that the run keeps spare."""
        return sum(_count(places) for places in self.spare.values())


def holding_of(leases: Iterable[Lease]) -> Holding:
    """Return the slots of ``leases`` together, without the leases that are stopping."""
    found = Holding()
    for lease in leases:
        if lease.ending is None:
            index = lease.fact.comp_path.partition("/")[2]
            kind = found.spare if lease.fact.role is Role.SPARE else found.working
            places = kind.setdefault(index, {})
            for node, mask in lease.fact.slots:
                places[node] = places.get(node, 0) | mask
    return found


def continuing_lines(
    events: Sequence[Event], before: Mapping[str, Lease], after: Mapping[str, Lease]
) -> list[str]:
    """Return what changed for each run that continues, from the open leases before and after.

    Runs that ended, wait again or have just started are reported elsewhere.
    """
    lines: list[str] = []
    over = {
        event.run for event in events if isinstance(event, RunRequeued | RunEnded | RunStopping)
    }
    grown = {
        event.lease
        for event in events
        if isinstance(event, LeaseStarted) and event.reason is StartReason.GROW
    }
    runs = touched(events)
    held = _by_run(runs, before)
    holds = _by_run(runs, after, without=grown)
    for run in runs:
        if held[run].working and run not in over:
            lines += _went_on(run, held[run], holds[run])
    return lines


def _by_run(
    runs: Iterable[str], leases: Mapping[str, Lease], *, without: Collection[str] = ()
) -> dict[str, Holding]:
    """Return the slots of each of ``runs`` under ``leases``, except the leases in ``without``."""
    found: dict[str, list[Lease]] = {run: [] for run in runs}
    for name, lease in leases.items():
        if lease.fact.run in found and name not in without:
            found[lease.fact.run].append(lease)
    return {run: holding_of(theirs) for run, theirs in found.items()}


def touched(events: Iterable[Event]) -> list[str]:
    """Return the runs whose leases changed, in the order of the changes."""
    found: dict[str, None] = {}
    for event in events:
        if isinstance(event, LeaseStarted | LeaseEnding | LeaseEnded):
            # A lease's name begins with its run's name, which has no slash.
            found[event.lease.partition("/")[0]] = None
    return list(found)


def _went_on(run: str, was: Holding, now: Holding) -> list[str]:
    lines = [f"run/{run}: {each}" for each in _takeovers(was, now)]
    dropped = _minus(_minus(_all(was.spare), _all(now.spare)), _all(now.working))
    if dropped:
        lines.append(f"run/{run}: spares are lost: {_text(dropped)}")
    spare = f", {gpus(now.gpus_spare)} spare" if was.spare else ""
    if now.gpus < was.gpus:
        lines.append(f"run/{run} shrinks: from {was.gpus} to {gpus(now.gpus)}{spare}")
    elif lines:
        lines.append(f"run/{run} continues with {gpus(now.gpus)}{spare}")
    return lines


def _takeovers(was: Holding, now: Holding) -> list[str]:
    """Return a line for each group and each source of its new slots: spares, or another group.

    The line names the new slots, and the slots that the group has lost.
    """
    lines = []
    for index, places in now.working.items():
        old = was.working.get(index, places)
        gained, lost = _minus(places, old), _text(_minus(old, places))
        from_spares = _both(gained, _all(was.spare))
        if from_spares:
            lines.append(f"spares take over in group/{index}: {_text(from_spares)} for {lost}")
        for giver, theirs in was.working.items():
            part = _both(gained, theirs)
            if part:
                lines.append(
                    f"the step in group/{giver} takes the place of group/{index}: "
                    f"{_text(part)} for {lost}"
                )
    return lines


def handover_lines(events: Sequence[Event], before: Mapping[str, Lease]) -> list[str]:
    """Return the old and the new payers of each bundle that was handed over."""
    facts = {name: lease.fact for name, lease in before.items()}
    gave: dict[tuple[str, int, int], dict[str, int]] = {}
    took: dict[tuple[str, int, int], dict[str, int]] = {}
    for event in events:
        if isinstance(event, LeaseStarted):
            facts[event.lease] = event
            if event.reason is StartReason.HANDOVER:
                _add(took, event, event.start_ms)
        elif isinstance(event, LeaseEnded) and event.reason is EndReason.HANDOVER:
            _add(gave, facts[event.lease], event.end_ms)
    return [
        f"run/{run} handed over at {time_text(at_ms)}: from {_payers(gave[run, bundle, at_ms])} "
        f"to {_payers(payers)}, on the same slots"
        for (run, bundle, at_ms), payers in took.items()
    ]


def _add(into: dict[tuple[str, int, int], dict[str, int]], fact: LeaseStarted, at_ms: int) -> None:
    payers = into.setdefault((fact.run, fact.bundle, at_ms), {})
    payers[fact.payer] = payers.get(fact.payer, 0) + lease_gpus(fact.slots)


def _payers(paid: Mapping[str, int]) -> str:
    return " and ".join(f"{payer} ({gpus(count)})" for payer, count in paid.items())


def _count(places: Places) -> int:
    return sum(mask.bit_count() for mask in places.values())


def _text(places: Places) -> str:
    return slots(tuple(places.items()))


def _minus(places: Places, others: Places) -> Places:
    """Return the slots of ``places`` that are not in ``others``."""
    return {node: left for node, mask in places.items() if (left := mask & ~others.get(node, 0))}


def _both(places: Places, others: Places) -> Places:
    return {node: both for node, mask in places.items() if (both := mask & others.get(node, 0))}


def _all(groups: Mapping[str, Places]) -> Places:
    """Return the slots of all groups together."""
    found: Places = {}
    for places in groups.values():
        for node, mask in places.items():
            found[node] = found.get(node, 0) | mask
    return found
