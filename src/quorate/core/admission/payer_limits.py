"""The limits of each payer, computed once for a search, so that the search reads no accounts.

A search asks thousands of times how many GPUs a payer can still pay for. Between these questions,
nothing changes but the GPUs that the search itself has taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from msgspec import Struct

from quorate.core.admission.payers import PayerList
from quorate.model.events import Tier
from quorate.model.specs import CapId, EnvelopeId

DEMANDS_MAX = 4
"""The most demands that ``can_pay`` takes, because it examines every set of them."""


class CapLimit(Struct, frozen=True, gc=False):
    """The GPUs and GPU-milliseconds that a cap has left; None for an amount without a limit.

    ``hold_ms`` is the shortest time for which a payer under the cap would hold a GPU. Only payers
    with an open window are considered. ``name`` and ``hours_name`` name the bounds on GPUs and on
    GPU-hours.
    """

    key: CapId
    name: str
    hours_name: str
    gpus: int | None
    gpu_ms: int | None
    hold_ms: int


class PayerLimits(Struct, frozen=True, gc=False):
    """The limits of one payer before the search takes GPUs.

    ``gpus`` and ``gpu_ms`` are the GPUs and GPU-milliseconds that the envelope has left; ``gpus``
    is 0 if the envelope is not open. ``per`` is the number of GPU-milliseconds that the payer has
    to hold for one GPU. ``lent_gpus`` and ``lent_gpu_ms`` are what the payer may still lend, and
    ``borrowed`` is how many GPUs the run may still borrow. A limit that does not exist is None; for
    a payer of the family, the last three are None.
    """

    key: EnvelopeId
    tier: Tier
    gpus: int
    gpu_ms: int
    per: int
    caps: tuple[CapLimit, ...]
    lent_gpus: int | None
    lent_gpu_ms: int | None
    borrowed: int | None

    @classmethod
    def of(cls, payer_list: PayerList, key: EnvelopeId, tier: Tier) -> PayerLimits:
        """Return the limits of a payer of ``payer_list``, from which nothing is taken yet."""
        view, request = payer_list.view, payer_list.request
        account = view.envelopes[key]
        spec, lending = account.spec, account.spec.lending
        is_open, is_loan = payer_list.is_open(account), tier is Tier.BORROWED
        caps = [view.caps[each] for each in account.caps]
        return cls(
            key,
            tier,
            spec.concurrency - account.gpus_active - account.gpus_reserved if is_open else 0,
            spec.gpu_ms_granted - account.committed_gpu_ms,
            payer_list.hold_ms(account),
            tuple(
                CapLimit(
                    cap.cap_id,
                    f"cap {cap.cap_id}",
                    f"GPU-hours of cap {cap.cap_id}",
                    _less(cap.spec.concurrency_max, cap.gpus_active + cap.gpus_reserved),
                    _less(cap.spec.gpu_ms_max, cap.committed_gpu_ms),
                    payer_list.hold_times(cap.cap_id)[0],
                )
                for cap in caps
            ),
            _less(lending.concurrency_max, account.lent_gpus_active) if is_loan else None,
            _less(lending.gpu_ms_max, account.lent_committed_gpu_ms) if is_loan else None,
            request.borrow_gpus_left if is_loan else None,
        )

    def room(self, taken: PayerList) -> int:
        """Return how many more GPUs the payer can pay for; the result equals ``PayerList.room``."""
        mine = taken.taken.get(self.key, 0)
        gpus = self.gpus - mine
        if gpus <= 0:
            return 0
        per = self.per
        gpus = min(gpus, (self.gpu_ms - mine * per) // per)
        for cap in self.caps:
            if cap.gpus is not None:
                gpus = min(gpus, cap.gpus - taken.cap_gpus.get(cap.key, 0))
            if cap.gpu_ms is not None:
                gpus = min(gpus, (cap.gpu_ms - taken.cap_gpu_ms.get(cap.key, 0)) // per)
        if self.lent_gpus is not None:
            gpus = min(gpus, self.lent_gpus - mine)
        if self.lent_gpu_ms is not None:
            gpus = min(gpus, (self.lent_gpu_ms - mine * per) // per)
        if self.borrowed is not None:
            gpus = min(gpus, self.borrowed - taken.borrowed)
        return max(0, gpus)

    def bounds(self, taken: PayerList) -> list[tuple[int, str]]:
        """Return (GPUs left, name) of each bound that the payer shares with others.

        For a cap on GPU-hours, the number of GPUs is the GPU-hours left, divided by the shortest
        hold among the payers under the cap. So this number is never too low.
        """
        found: list[tuple[int, str]] = []
        for cap in self.caps:
            if cap.gpus is not None:
                left = cap.gpus - taken.cap_gpus.get(cap.key, 0)
                found.append((max(0, left), cap.name))
            if cap.gpu_ms is not None:
                left = (cap.gpu_ms - taken.cap_gpu_ms.get(cap.key, 0)) // cap.hold_ms
                found.append((max(0, left), cap.hours_name))
        if self.borrowed is not None:
            found.append((max(0, self.borrowed - taken.borrowed), "borrow limit"))
        return found


Served = tuple[PayerLimits, int]
"""A payer, and the set of demands that this payer may pay for.

A set of demands is given as a number: the sum of 2**i over the indexes i of its demands.
"""


def can_pay(taken: PayerList, left: Sequence[int], served: Iterable[Served]) -> bool:
    """Return whether payers can pay for ``left``, the GPUs that remain of each demand.

    If a payer shares several bounds with others, only the tightest bound is considered. The demands
    can be paid for if no set of demands needs more GPUs than the payers of this set can pay for
    together (Hall's theorem). A maximum-flow computation gives the same result, but takes longer
    for up to ``DEMANDS_MAX`` demands.
    """
    wanted = [index for index, gpus in enumerate(left) if gpus]
    together = LimitsTogether.of(taken, served, sum([1 << index for index in wanted]))
    for size in range(len(wanted), 0, -1):
        for some in combinations(wanted, size):
            most = together.most_paid(sum([1 << index for index in some]))
            if most < sum([left[index] for index in some]):
                return False
    return True


class LimitsTogether(Struct, frozen=True, gc=False):
    """What several payers can pay together, if only the tightest shared bound of each counts.

    ``rooms`` has the GPUs that payers have left, by the demands that they may pay for and the name
    of their bound. ``bounds`` is how many GPUs each shared bound leaves.
    """

    rooms: dict[tuple[int, str], int]
    bounds: dict[str, int]

    @classmethod
    def of(cls, taken: PayerList, served: Iterable[Served], wanted: int) -> LimitsTogether:
        """Return what the payers in ``served`` can pay together for the demands in ``wanted``."""
        rooms: dict[tuple[int, str], int] = {}
        bounds: dict[str, int] = {}
        for limits, demands in served:
            mine = demands & wanted
            room = limits.room(taken) if mine else 0
            if room:
                name = ""
                if limits.caps or limits.borrowed is not None:
                    gpus, name = min(limits.bounds(taken), default=(0, ""))
                    if name:
                        bounds[name] = gpus
                rooms[mine, name] = rooms.get((mine, name), 0) + room
        return cls(rooms, bounds)

    def most_paid(self, demands: int) -> int:
        """Return how many GPUs the payers of the set ``demands`` can pay for together."""
        by_bound: dict[str, int] = {}
        for (served, name), room in self.rooms.items():
            if served & demands:
                by_bound[name] = by_bound.get(name, 0) + room
        bounds = self.bounds
        return sum([min(room, bounds[name]) if name else room for name, room in by_bound.items()])


def _less(limit: int | None, used: int) -> int | None:
    return None if limit is None else limit - used
