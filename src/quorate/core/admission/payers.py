"""The payers of one run: every envelope that may pay, in cover order, and how much each can pay.

In cover order, the owner's own envelopes come first, then the envelopes of its siblings (owners
that share a parent with it), then those of its parents. Sponsors' envelopes come last, if sponsors
are tried. Within each of these groups, envelopes are sorted by budget name, then by envelope name.
Payers have no priority number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import Struct

from quorate.model.events import Tier
from quorate.model.selector import RACK, matches, names_label
from quorate.model.specs import CapId, Envelope, EnvelopeId, Sharing, envelope_id
from quorate.model.state.reads.money_reads import Family, Payers
from quorate.model.state.records import CapAccount, EnvelopeAccount
from quorate.model.state.state_view import StateView


class CoverRequest(Struct, frozen=True, kw_only=True, gc=False):
    """The request for payers: for which owner and flavor, from when and for how long.

    ``duration_ms`` is the expected duration plus grace (``holds.hold_duration_ms``).
    ``borrow_gpus_left`` is how many GPUs the run may still borrow; None means any number. A payer
    whose window ends by ``outlast_ms`` does not pay, because its lease would have to stop at once.

    The start is at ``now_ms``. ``asked_ms`` is the instant at which the start is planned, if that
    instant is earlier. An envelope whose window opens between these two instants pays only if it
    allows reservations, or admission, before its window opens. If ``own_only`` is set, only
    envelopes of the owner itself pay. ``barred`` envelopes do not pay.
    """

    owner: str
    flavor: str
    now_ms: int
    duration_ms: int
    allow_borrow: bool = False
    borrow_gpus_left: int | None = None
    sponsors: tuple[str, ...] = ()
    outlast_ms: int = 0
    asked_ms: int | None = None
    own_only: bool = False
    barred: frozenset[EnvelopeId] = frozenset()


class Leg(Struct, frozen=True, gc=False):
    """``payer`` pays for ``gpus`` GPUs of demand number ``place``, each held for ``hold_ms``."""

    place: int
    payer: EnvelopeId
    tier: Tier
    gpus: int
    hold_ms: int


class Place(Struct, frozen=True, gc=False):
    """A domain, or a part of a domain, for whose GPUs payers are searched.

    ``where`` is the name of the place. The selectors of envelopes are compared with ``labels``.
    """

    where: str
    labels: Mapping[str, str]


Demand = tuple[Place, int]

# Reading a member of an enumeration is slow in Python 3.11, and the inner loop reads this one.
_BORROWED: Final = Tier.BORROWED


def family_payers(view: StateView, owner: str, flavor: str) -> Payers:
    """Return the payers of the family of ``owner`` for ``flavor``, in cover order."""
    return family_of(view, owner, flavor).payers


def family_of(view: StateView, owner: str, flavor: str) -> Family:
    """Return the envelopes of ``owner`` and its family for ``flavor``, in cover order.

    The view caches the result per (owner, flavor) until a budget or an owner changes.
    """
    cached = view.family_cache.get((owner, flavor))
    if cached is not None:
        return cached
    found: list[tuple[EnvelopeId, Tier]] = []
    found.extend((key, Tier.OWNED) for key in _envelopes_of(view, (owner,), flavor))
    spec = view.owners.get(owner)
    parents = () if spec is None else spec.parents
    siblings = {child for parent in parents for child in view.children.get(parent, ())}
    for relatives in (siblings - {owner}, parents):
        found.extend(
            (key, Tier.SHARED)
            for key in _envelopes_of(view, relatives, flavor)
            if view.envelopes[key].spec.sharing is Sharing.FAMILY
        )
    # An owner can be both a sibling and a parent of another owner; then only its first position is
    # used.
    seen: dict[EnvelopeId, Tier] = {}
    for key, tier in found:
        seen.setdefault(key, tier)
    payers = tuple(seen.items())
    family = Family(payers, names_racks(view, payers))
    view.family_cache[owner, flavor] = family
    return family


def names_racks(view: StateView, payers: Payers) -> bool:
    """Return whether the selector of any of ``payers`` names racks."""
    return any(names_label(view.envelopes[key].spec.selector, RACK) for key, _ in payers)


def _envelopes_of(view: StateView, owners: Iterable[str], flavor: str) -> list[EnvelopeId]:
    """Return the envelopes of ``owners`` for ``flavor``, by budget name, then envelope name."""
    budgets = sorted(name for owner in owners for name in view.owner_budgets.get(owner, ()))
    return [
        envelope_id(budget, envelope.name)
        for budget in budgets
        for envelope in sorted(view.budgets[budget].envelopes, key=lambda found: found.name)
        if envelope.flavor == flavor
    ]


def sponsor_payers(view: StateView, request: CoverRequest) -> Payers:
    """Return the sponsors' envelopes that the run may borrow from, in cover order.

    If the run lists sponsors, only these sponsors are used, in the listed order. If the run lists
    none, all lenders are used, in the order of their names.
    """
    if not request.allow_borrow:
        return ()
    family = {key for key, _ in family_payers(view, request.owner, request.flavor)}
    if request.sponsors:
        candidates = [
            key
            for sponsor in request.sponsors
            for key in _envelopes_of(view, (sponsor,), request.flavor)
        ]
    else:
        candidates = list(view.lenders.get(request.flavor, ()))
    return tuple(
        (key, Tier.BORROWED)
        for key in candidates
        if key not in family
        and view.envelopes[key].owner != request.owner
        and view.envelopes[key].spec.lending.admits(request.owner)
    )


def is_open(spec: Envelope, at_ms: int, outlast_ms: int, asked_ms: int | None) -> bool:
    """Return whether an envelope may pay for a start at ``at_ms``.

    The start is planned at the instant ``asked_ms``. ``CoverRequest`` explains the conditions.
    """
    lasts = max(at_ms, outlast_ms) < spec.end_ms
    if not lasts or spec.allow_admission:
        return lasts
    foreseen = asked_ms is None or spec.start_ms <= asked_ms or spec.allow_reservations
    return spec.start_ms <= at_ms and foreseen


class Accounts(Protocol):
    """The accounts of envelopes and caps: those of a view, or those expected at a later instant."""

    @property
    def envelopes(self) -> Mapping[EnvelopeId, EnvelopeAccount]:
        """Every envelope by its key."""
        ...

    @property
    def caps(self) -> Mapping[CapId, CapAccount]:
        """Every cap by its key."""
        ...


@dataclass(slots=True)
class PayerList:
    """The payers of one decision, and the GPUs that the decision has already taken from them."""

    view: Accounts
    request: CoverRequest
    payers: Payers
    taken: dict[EnvelopeId, int] = field(default_factory=dict)
    cap_gpus: dict[CapId, int] = field(default_factory=dict)
    cap_gpu_ms: dict[CapId, int] = field(default_factory=dict)
    borrowed: int = 0
    hold_times_cache: dict[CapId, list[int]] = field(default_factory=dict)

    def hold_ms(self, account: EnvelopeAccount) -> int:
        """Return for how long ``account`` pays for a GPU in advance.

        This time ends at the latest when the envelope's window ends.
        """
        return min(self.request.duration_ms, account.spec.end_ms - self.request.now_ms)

    def hold_times(self, cap_key: CapId) -> list[int]:
        """Return for how long the open payers under a cap hold a GPU, the shortest time first."""
        known = self.hold_times_cache.get(cap_key)
        if known is None:
            accounts = [self.view.envelopes[key] for key, _ in self.payers]
            under = (each for each in accounts if cap_key in each.caps and self.is_open(each))
            known = sorted({self.hold_ms(each) for each in under}) or [self.request.duration_ms]
            self.hold_times_cache[cap_key] = known
        return known

    def is_open(self, account: EnvelopeAccount) -> bool:
        """Return whether ``account`` may pay for a start now."""
        request = self.request
        return is_open(account.spec, request.now_ms, request.outlast_ms, request.asked_ms)

    def room(self, key: EnvelopeId, tier: Tier) -> int:
        """Return how many more GPUs the envelope can pay for in this decision."""
        view, request = self.view, self.request
        account = view.envelopes[key]
        spec, taken = account.spec, self.taken.get(key, 0)
        gpus = spec.concurrency - account.gpus_active - account.gpus_reserved - taken
        # The limits are computed inline, because this method is called more often than any other.
        if gpus <= 0 or not is_open(spec, request.now_ms, request.outlast_ms, request.asked_ms):
            return 0
        per = min(request.duration_ms, spec.end_ms - request.now_ms)
        gpus = min(gpus, (spec.gpu_ms_granted - account.committed_gpu_ms - taken * per) // per)
        for cap_key in account.caps:
            cap = view.caps[cap_key]
            if cap.spec.concurrency_max is not None:
                used = cap.gpus_active + cap.gpus_reserved + self.cap_gpus.get(cap_key, 0)
                gpus = min(gpus, cap.spec.concurrency_max - used)
            if cap.spec.gpu_ms_max is not None:
                promised = cap.committed_gpu_ms + self.cap_gpu_ms.get(cap_key, 0)
                gpus = min(gpus, (cap.spec.gpu_ms_max - promised) // per)
        if tier is _BORROWED:
            gpus = min(gpus, self._lending_room(account, taken, per))
        return max(0, gpus)

    def pays_anywhere(self, gpus: int) -> bool:
        """Return whether the payers could pay for ``gpus`` GPUs if place did not matter."""
        room = 0
        for key, tier in self.payers:
            room += self.room(key, tier)
            if room >= gpus:
                return True
        return False

    def _lending_room(self, account: EnvelopeAccount, taken: int, per: int) -> int:
        lending = account.spec.lending
        gpus = account.spec.concurrency
        if lending.concurrency_max is not None:
            gpus = min(gpus, lending.concurrency_max - account.lent_gpus_active - taken)
        if lending.gpu_ms_max is not None:
            promised = account.lent_committed_gpu_ms + taken * per
            gpus = min(gpus, (lending.gpu_ms_max - promised) // per)
        if self.request.borrow_gpus_left is not None:
            gpus = min(gpus, self.request.borrow_gpus_left - self.borrowed)
        return gpus

    def take(self, key: EnvelopeId, tier: Tier, gpus: int) -> None:
        """Record that this decision takes ``gpus`` from the envelope.

        If ``gpus`` is negative, the decision gives GPUs back.
        """
        account = self.view.envelopes[key]
        self.taken[key] = self.taken.get(key, 0) + gpus
        per = self.hold_ms(account)
        for cap_key in account.caps:
            self.cap_gpus[cap_key] = self.cap_gpus.get(cap_key, 0) + gpus
            self.cap_gpu_ms[cap_key] = self.cap_gpu_ms.get(cap_key, 0) + gpus * per
        if tier is _BORROWED:
            self.borrowed += gpus

    def reset(self) -> None:
        """Give back all GPUs that this decision took."""
        self.taken.clear()
        self.cap_gpus.clear()
        self.cap_gpu_ms.clear()
        self.borrowed = 0

    def pays_at(self, key: EnvelopeId, labels: Mapping[str, str]) -> bool:
        """Return whether the envelope's selector covers a place with ``labels``."""
        return matches(self.view.envelopes[key].spec.selector, labels)

    def greedy(self, demands: Sequence[Demand]) -> list[Leg] | None:
        """Return the legs of a greedy pass; None if they do not pay for all demands.

        The greedy pass takes as much as possible from each payer in order. If its legs pay for all
        demands, no earlier payer could have paid more. So they are the lexicographically first
        legs.
        """
        legs: list[Leg] = []
        envelopes = self.view.envelopes
        for index, (place, gpus) in enumerate(demands):
            left, labels = gpus, place.labels
            for key, tier in self.payers:
                account = envelopes[key]
                spec = account.spec
                if account.gpus_active >= spec.concurrency or not matches(spec.selector, labels):
                    continue
                gpus_paid = min(left, self.room(key, tier))
                if gpus_paid <= 0:
                    continue
                self.take(key, tier, gpus_paid)
                per = self.hold_ms(account)
                legs.append(Leg(index, key, tier, gpus_paid, per))
                left -= gpus_paid
                if left == 0:
                    break
            if left:
                self.reset()
                return None
        return legs
