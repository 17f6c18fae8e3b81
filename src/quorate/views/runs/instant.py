"""The state at an instant, and values derived from it: payers and domains of runs. Pure."""

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
    """A view whose holds are settled up to ``now_ms``; ``seq`` is the last sequence number.

    ``seen`` are the owners whose resources the caller may see; None means all. ``has_executor``
    means that a stop lasts until an executor confirms it. ``closed`` are the closed reservations
    that the caller named. ``waits`` and ``progress`` are the waits and the reported progress of the
    runs that the caller named. ``shared``, if not None, is an outlook on the same view; other
    answers use the same outlook.
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
        """Values derived from the view, computed once for all answers about this moment."""
        return self.shared or Outlook(self.view, self.now_ms, has_executor=self.has_executor)

    @property
    def plan(self) -> Foresight:
        """The planned starts of the waiting runs."""
        return self.outlook.plan

    @property
    def redaction(self) -> Redaction:
        """The redaction for this caller."""
        return Redaction(self.view, self.seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The amount that an envelope has paid for a run so far, and the GPUs that it pays for now."""

    run: str
    owner: str
    payer: EnvelopeId
    tier: Tier
    gpus: int
    gpu_ms: int


def leases_of(moment: Moment, names: Iterable[str]) -> list[Lease]:
    """Return the open leases with the names ``names``."""
    return [moment.view.leases[name] for name in names]


def run_gpus(moment: Moment, record: RunRecord) -> int:
    """Return how many GPUs the run has now, spares included."""
    return sum(lease.gpus for lease in leases_of(moment, record.leases))


def run_width(moment: Moment, record: RunRecord) -> int:
    """Return the number of GPUs the run works on: without spares and stopping leases."""
    return sum(
        lease.gpus
        for lease in leases_of(moment, record.leases)
        if lease.fact.role is not Role.SPARE and lease.ending is None
    )


def charges_of(moment: Moment, record: RunRecord) -> list[Charge]:
    """Return the exact charges of a run up to now, from ended and open leases together."""
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
    """Return the owners that paid and are outside the family, sorted by name."""
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
    """Return the owner's runs in ``phase``, oldest first; ``phase`` must not be a final phase."""
    return runs_by_owner(moment, (owner,), (phase,))[phase][owner]


def runs_by_owner(
    moment: Moment, owners: Iterable[str], phases: Collection[Phase]
) -> dict[Phase, dict[str, list[str]]]:
    """Return the runs of each of ``owners`` in each of ``phases``, oldest first, in one pass.

    ``phases`` must not include a final phase: a run that is over may be in the archive only.
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
