"""The state at an instant, and what follows from it: who paid for a run, where it is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from quorate.core.accounting.wait_causes import Wait
from quorate.core.explain.state_outlook import Outlook
from quorate.core.planning.foresight import Foresight
from quorate.model.events import LeaseStarted, Role, Tier
from quorate.model.specs import EnvelopeId
from quorate.model.state.records import TERMINAL, Lease, Phase, RunRecord
from quorate.model.state.state_view import StateView
from quorate.views.redaction.redaction import Redaction
from quorate.views.runs.closed_reservations import ClosedReservation
from quorate.views.runs.progress_view import Progress


@dataclass(frozen=True)
class Moment:
    """A view whose holds are settled as of ``now_ms``; ``seq`` is the last event recorded.

    ``seen`` are the owners whose things may be named to the caller; None is all of them.
    ``has_executor`` says that stops take as long as an executor needs to confirm them. ``closed``
    are the reservations that are over and that the caller named; ``waits`` and ``progress`` are
    what the runs that the caller named have waited, and what their work has reported. ``shared`` is
    the outlook on the view where others are answered from it, too.
    """

    view: StateView
    now_ms: int
    seq: int
    seen: frozenset[str] | None = None
    has_executor: bool = False
    closed: Mapping[str, ClosedReservation] = field(default_factory=dict)
    waits: Mapping[str, Wait] = field(default_factory=dict)
    progress: Mapping[str, Progress] = field(default_factory=dict)
    shared: Outlook | None = None

    @cached_property
    def outlook(self) -> Outlook:
        """What follows from the view, derived once for everything that is shown of the moment."""
        return self.shared or Outlook(self.view, self.now_ms, has_executor=self.has_executor)

    @property
    def plan(self) -> Foresight:
        """The planned starts of the waiting runs."""
        return self.outlook.plan

    @property
    def redaction(self) -> Redaction:
        """What may be named of it."""
        return Redaction(self.view, self.seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one envelope has paid for one run so far, and for how many GPUs it is paying now."""

    run: str
    owner: str
    payer: EnvelopeId
    tier: Tier
    gpus: int
    gpu_ms: int


def leases_of(moment: Moment, names: Iterable[str]) -> list[Lease]:
    """Return the open leases called ``names``."""
    return [moment.view.leases[name] for name in names]


def run_gpus(moment: Moment, record: RunRecord) -> int:
    """Return how many GPUs the run has now, spares included."""
    return sum(lease.gpus for lease in leases_of(moment, record.leases))


def run_width(moment: Moment, record: RunRecord) -> int:
    """Return how many GPUs the run works on: without spares and stopping leases."""
    return sum(
        lease.gpus
        for lease in leases_of(moment, record.leases)
        if lease.fact.role is not Role.SPARE and lease.ending is None
    )


def charges_of(moment: Moment, record: RunRecord) -> list[Charge]:
    """Return who has paid for the run up to now, ended and running leases together, exactly."""
    gpu_ms = dict(record.charges)
    gpus: dict[tuple[EnvelopeId, Tier], int] = {}
    for lease in leases_of(moment, record.leases):
        key = (lease.fact.payer, lease.fact.tier)
        used = lease.gpus * (moment.now_ms - lease.fact.start_ms)
        gpu_ms[key] = gpu_ms.get(key, 0) + used
        gpus[key] = gpus.get(key, 0) + lease.gpus
    return [
        Charge(
            run=record.spec.name,
            owner=record.spec.owner,
            payer=payer,
            tier=tier,
            gpus=gpus.get((payer, tier), 0),
            gpu_ms=amount,
        )
        for (payer, tier), amount in gpu_ms.items()
    ]


def lenders_of(moment: Moment, charges: Iterable[Charge]) -> list[str]:
    """Return the owners outside the family that paid, by name."""
    return sorted(
        {
            moment.view.envelopes[charge.payer].owner
            for charge in charges
            if charge.tier is Tier.BORROWED
        }
    )


def domains_of(moment: Moment, facts: Iterable[LeaseStarted]) -> dict[str, int]:
    """Return the GPUs that leases have in each domain, in the order of the leases."""
    found: dict[str, int] = {}
    for fact in facts:
        for node, mask in fact.slots:
            domain = moment.view.nodes[node].spec.domain_key
            found[domain] = found.get(domain, 0) + mask.bit_count()
    return found


def runs_of(moment: Moment, owner: str, phase: Phase) -> list[str]:
    """Return the owner's runs in ``phase``, which is not over, oldest first."""
    return runs_by_owner(moment, (owner,), (phase,))[phase][owner]


def runs_by_owner(
    moment: Moment, owners: Iterable[str], phases: Collection[Phase]
) -> dict[Phase, dict[str, list[str]]]:
    """Return the runs of each of ``owners`` in each of ``phases``, oldest first, by one walk.

    None of the phases is one that ends a run: those that are over may be in the archive alone.
    """
    assert not TERMINAL.intersection(phases), phases
    wanted = tuple(owners)
    found: dict[Phase, dict[str, list[tuple[int, str]]]] = {
        phase: {owner: [] for owner in wanted} for phase in phases
    }
    for name, record in moment.view.runs.kept():
        of_phase = found.get(record.phase)
        of_owner = None if of_phase is None else of_phase.get(record.spec.owner)
        if of_owner is not None:
            of_owner.append((record.seq, name))
    return {
        phase: {owner: [name for _, name in sorted(runs)] for owner, runs in by_owner.items()}
        for phase, by_owner in found.items()
    }
