"""Makes a long ledger to replay: a million events of a fleet in use. It stays on disk.

The real packer chooses the slots on a fleet that stays four fifths full, so the placement is
realistic. Payers and times are invented, within the budgets. Nine of ten runs need at most eight
GPUs, so that 10,000 nodes have 16,000 leases. One run in five is paid by two envelopes, one in
eight is refused once before it starts, one in four is cancelled (which stops its leases first), and
one in eight outlives its hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.worlds import FAMILY_SIZE, FLAVOR, budgets, families, fleet, owner_name
from quorate.adapters.stores.archive_file import archive_path
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.admission.layout import Bundle, PackRequest
from quorate.core.admission.pack import PackPlan, pack_gang
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.ledger.chain import GENESIS, seal
from quorate.ledger.fold import replay
from quorate.ledger.snapshot import SNAPSHOT_FORMAT, cut
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    Outcome,
    Role,
    RunEnded,
    RunRefused,
    RunSubmitted,
    Slots,
    StartReason,
    Tier,
    lease_gpus,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import DEFAULT_POOL, EnvelopeId, Run, envelope_id
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, opening, world

VERSION: Final = 2
"""The version of the generated ledger; kept ledgers of older versions are not used."""
_SHAPE: Final = f"{VERSION}-{SNAPSHOT_FORMAT}"
"""Part of the file name, because a snapshot of another format would be ignored."""

NODES: Final = 10_000
OWNERS: Final = 200
LEASES_OPEN: Final = 16_000
EVENTS_PER_BLOCK: Final = 128
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128)
WEIGHTS: Final = (46, 16, 14, 18, 4, 1, 0.6, 0.4)
AUDITED: Final = 60_000
"""The events that are checked one by one when a ledger is made; the state at its end is checked as
a whole."""
ACTOR: Final = "alice@example.org"


@dataclass(frozen=True, slots=True)
class Opened:
    """A run with its open leases."""

    run: str
    leases: tuple[LeaseStarted, ...]


@dataclass(slots=True)
class Story:
    """Makes the events of a fleet, run after run."""

    rng: Random = field(default_factory=lambda: Random(5))
    now_ms: int = NOW_MS
    number: int = 0
    leases_open: int = 0
    live: list[Opened] = field(default_factory=list)
    state: State = field(default_factory=lambda: world(nodes=fleet(NODES)))

    def opening(self) -> list[Event]:
        """Return the events that declare the fleet and the budgets."""
        # Payers should never be short here, so every envelope can pay for the whole fleet.
        found = budgets(OWNERS, concurrency=8 * NODES)
        return opening(nodes=fleet(NODES), owners=families(OWNERS), budgets=found)

    def events(self, count: int) -> Iterator[Event]:
        """Yield the declarations, then whole decisions, until there are at least ``count`` events.

        From the time when ``LEASES_OPEN`` leases are open, their number stays the same.
        """
        told = self.opening()
        yield from told
        so_far = len(told)
        while so_far < count:
            self.now_ms += self.rng.randrange(2_000)
            full = self.leases_open >= LEASES_OPEN
            decision = list(self.end() if full else self.start())
            so_far += len(decision)
            yield from decision

    def start(self) -> Iterator[Event]:
        """Yield the submission and the start of one more run."""
        self.number += 1
        (gpus,) = self.rng.choices(SIZES, WEIGHTS)
        owner = owner_name(
            self.rng.randrange(OWNERS // FAMILY_SIZE) * FAMILY_SIZE + 1 + self.number % 9
        )
        run = Run(
            name=f"train-{self.number:07d}",
            owner=owner,
            flavors=(FLAVOR,),
            gpus=gpus,
            user=ACTOR,
            command=("python", "train.py", "--config", "base.yaml"),
            nonce=f"{self.rng.getrandbits(128):032x}",
        )
        yield RunSubmitted(at_ms=self.now_ms, actor=ACTOR, run=run)
        if self.number % 8 == 0:
            refusal = Refusal(code=RefusalCode.INSUFFICIENT_CAPACITY, wanted=gpus, short=gpus)
            yield RunRefused(at_ms=self.now_ms, actor=ACTOR, run=run.name, refusal=refusal)
            self.now_ms += self.rng.randrange(2_000)
        slots = self._place(gpus)
        parts = [slots]
        if self.number % 5 == 0 and len(slots) > 1:
            parts = [slots[:1], slots[1:]]
        elif self.number % 5 == 0 and gpus > 1:
            parts = _halves(slots)
        leases = tuple(self._lease(run, number, part) for number, part in enumerate(parts))
        yield from leases
        self.leases_open += len(leases)
        self.live.append(Opened(run.name, leases))

    def end(self) -> Iterator[Event]:
        """Yield the end of a run chosen at random."""
        place = self.rng.randrange(len(self.live))
        self.live[place], self.live[-1] = self.live[-1], self.live[place]
        opened = self.live.pop()
        cancelled = self.rng.randrange(4) == 0
        reason = EndReason.CANCELLED if cancelled else EndReason.END
        if self.rng.randrange(8) == 0:
            for lease in opened.leases:
                more = 15 * MINUTE_MS * lease_gpus(lease.slots)
                yield HoldExtended(at_ms=self.now_ms, actor=ACTOR, lease=lease.lease, gpu_ms=more)
        for lease in opened.leases:
            if cancelled:
                yield LeaseEnding(
                    at_ms=self.now_ms,
                    actor=ACTOR,
                    lease=lease.lease,
                    reason=reason,
                    deadline_ms=self.now_ms + 2 * MINUTE_MS,
                )
            yield LeaseEnded(
                at_ms=self.now_ms,
                actor=ACTOR,
                lease=lease.lease,
                reason=reason,
                end_ms=self.now_ms,
            )
            self.state.vacate(lease.slots)
        self.leases_open -= len(opened.leases)
        outcome = Outcome.CANCELLED if cancelled else Outcome.COMPLETED
        yield RunEnded(at_ms=self.now_ms, actor=ACTOR, run=opened.run, outcome=outcome)

    def _place(self, gpus: int) -> Slots:
        """Take slots of ``gpus`` GPUs in one domain, and return them."""
        request = PackRequest(
            pool=DEFAULT_POOL, flavor=FLAVOR, bundles=(Bundle(0, gpus, None),), one_domain=True
        )
        plan = pack_gang(self.state, request)
        assert isinstance(plan, PackPlan), (gpus, plan)
        (group,) = plan.groups
        self.state.occupy(group.slots)
        return group.slots

    def _lease(self, run: Run, number: int, slots: Slots) -> LeaseStarted:
        # The clusters of a run's domains do not matter: the envelope "any" pays anywhere, and a
        # sibling's envelope "any" pays for the second part.
        own = envelope_id(f"{run.owner}-h100", "any")
        shared = EnvelopeId(f"{run.owner.partition('-')[0]}-h100/any")
        return LeaseStarted(
            at_ms=self.now_ms,
            actor=ACTOR,
            lease=f"{run.name}/{number}",
            run=run.name,
            partner=None,
            comp_path="group/0",
            bundle=0,
            role=Role.ACTIVE,
            slots=slots,
            payer=shared if number else own,
            tier=Tier.SHARED if number else Tier.OWNED,
            hold_gpu_ms=lease_gpus(slots) * 240 * HOUR_MS,
            start_ms=self.now_ms,
            reason=StartReason.START,
        )


def _halves(slots: Slots) -> list[Slots]:
    """Return the slots of one node in two parts."""
    ((node, mask),) = slots
    low = mask & -mask
    return [((node, low),), ((node, mask ^ low),)]


def kept_ledger(events: int, *, under: Path) -> Path:
    """Return a ledger of ``events`` events with a snapshot at its end; make it if missing."""
    return _kept(under / f"history-{_SHAPE}-{events}.db", Story().events(events))


def young_ledger(*, under: Path) -> Path:
    """Return a ledger that ends when ``LEASES_OPEN`` leases are open and no run has ended."""
    return _kept(under / f"young-{_SHAPE}-{LEASES_OPEN}.db", _until_full(Story()))


def _until_full(story: Story) -> Iterator[Event]:
    yield from story.opening()
    while story.leases_open < LEASES_OPEN:
        yield from story.start()


def _kept(path: Path, events: Iterator[Event]) -> Path:
    """Return ``path``; write it if missing, under another name until it is complete."""
    if path.exists():
        return path
    wrong = audit(Story().events(AUDITED))
    assert not wrong, wrong[:3]
    with TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        with SqliteStore.create(made) as store:
            _write(store, events)
            state, head = replay(store.blocks())
            wrong = sweep(state)
            assert not wrong, wrong[:3]
            found = cut(state)
            store.save_snapshot(head, found.payload, found.rows())
        archive_path(made).rename(archive_path(path))
        made.rename(path)
    return path


def _write(store: SqliteStore, events: Iterator[Event]) -> None:
    """Append ``events`` in blocks of ``EVENTS_PER_BLOCK``."""
    head = GENESIS
    while block := list(islice(events, EVENTS_PER_BLOCK)):
        sealed = seal(head, block)
        store.append(sealed, expected=head)
        head = sealed.head
