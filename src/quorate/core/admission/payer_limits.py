"""What limits each payer during one search, so that the search reads no accounts.

A search asks thousands of times how many GPUs a payer can still pay for. Only the GPUs that the
search itself has taken change between these questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from msgspec import Struct

from quorate.core.admission.payers import PayerList
from quorate.model.events import Tier
from quorate.model.specs import CapId, EnvelopeId

DEMANDS_MAX = 4
"""``can_pay`` examines every set of demands, so it takes no more than this many demands."""


class CapLimit(Struct, frozen=True, gc=False):
    """The GPUs and GPU-milliseconds that a cap has left; None if it does not limit them.

    ``hold_ms`` is the shortest hold among the open payers under the cap. ``name`` and
    ``hours_name`` are what the bounds on GPUs and on GPU-hours are called.
    """

    key: CapId
    name: str
    hours_name: str
    gpus: int | None
    gpu_ms: int | None
    hold_ms: int


class PayerLimits(Struct, frozen=True, gc=False):
    """The limits of one payer before the search takes GPUs.

    ``gpus`` and ``gpu_ms`` are what the envelope has left; ``gpus`` is 0 if it is not open. ``per``
    is the GPU-milliseconds that one GPU holds. ``lent_gpus``, ``lent_gpu_ms`` and ``borrowed`` are
    None unless the payer lends and has such a limit.
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
        """Return how many more GPUs the payer can pay for, as ``PayerList.room`` does."""
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

        The GPU-hours left under a cap are divided by the shortest hold among its payers. So the
        resulting number of GPUs is never too low.
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
"""A payer, and the set of demands that it may pay for.

A set of demands is given as the sum of 2**number over the numbers of its demands.
"""


def can_pay(taken: PayerList, left: Sequence[int], served: Iterable[Served]) -> bool:
    """Return whether payers can pay what is left of each demand, with one shared bound for each.

    Of the bounds that a payer shares, only the tightest counts. Every set of demands must need no
    more than its payers have together: then the demands can be paid (Hall's theorem). The result
    equals that of a maximum flow, and is quicker for at most ``DEMANDS_MAX`` demands.
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
        """Return what the payers ``served`` can pay of the demands ``wanted``."""
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
