"""Payment: an exact search for how much each payer pays for each demand.

``pay`` first tries a greedy pass, which takes as much as possible from each payer in order. If the
greedy pass fails, ``pay`` uses the search.

In general the problem is hard, because caps may overlap. So a ``SearchBudget`` bounds the search.
The solution of a small maximum-flow problem shows early which branches cannot succeed. Without
overlapping caps the search never backtracks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.core.admission.max_flow import FlowNetwork
from quorate.core.admission.payer_limits import DEMANDS_MAX, PayerLimits, Served, can_pay
from quorate.core.admission.payers import Demand, Leg, PayerList
from quorate.core.admission.search_budget import SearchBudget
from quorate.model.events import Tier
from quorate.model.specs import CapId, EnvelopeId

Choice = tuple[int, EnvelopeId, Tier]
"""(demand, payer, tier): one cell of the table of payments that the search fills in."""


CELLS_PER_STEP: Final = 256
"""The number of examined cells of the table that cost one step of the search budget."""


Rooms = Mapping[tuple[EnvelopeId, Tier], int]
"""How many GPUs each payer can pay for before the search; a payer without any is absent."""


def rooms_of(payer_list: PayerList) -> Rooms:
    """Return how many GPUs each payer can pay for, in the order of the payers."""
    rooms = ((payer, payer_list.room(*payer)) for payer in payer_list.payers)
    return {payer: gpus for payer, gpus in rooms if gpus > 0}


def choices_of(payer_list: PayerList, demands: Sequence[Demand], rooms: Rooms) -> list[Choice]:
    """Return the cells in which the payer can pay for the demand, in lexicographic order."""
    return [
        (index, key, tier)
        for index, (place, _) in enumerate(demands)
        for key, tier in rooms
        if payer_list.pays_at(key, place.labels)
    ]


@dataclass(slots=True)
class Relaxation:
    """The GPUs that payers can still pay for, as a flow network with simplified shared bounds.

    Flow runs from demands to payers. If a payer is under several bounds that it shares with other
    payers, the network has only the tightest of them. The omitted bounds could only make paying
    harder. So if the network cannot pay for the remaining demand, the demand cannot be paid.
    """

    network: FlowNetwork
    sink: int
    sources: dict[int, int]
    watched: int

    @classmethod
    def build(
        cls,
        payer_list: PayerList,
        choices: Sequence[Choice],
        demanded: Sequence[int],
        *,
        rooms_now: Rooms | None = None,
        watched: Choice | None = None,
    ) -> Relaxation:
        """Return the network in which only the cells ``choices`` may pay for ``demanded``.

        Payers share one node of the network if they can pay for the same demands under the same
        bound, because only the sum of their GPUs matters. The payer of the ``watched`` cell has a
        separate node, and the result's ``watched`` is the edge of that cell. If no GPUs are taken
        yet, the caller may give ``rooms_now``, which says how many GPUs each payer can pay for.
        """
        network = FlowNetwork()
        sink = network.node()
        sources = {index: network.node() for index, gpus in enumerate(demanded) if gpus}
        served: dict[EnvelopeId, list[int]] = {}
        tiers: dict[EnvelopeId, Tier] = {}
        for index, key, tier in choices:
            if index in sources:
                served.setdefault(key, []).append(index)
                tiers[key] = tier
        rooms: dict[tuple[tuple[int, ...], str, str], int] = {}
        bounds: dict[str, int] = {}
        for key, indexes in served.items():
            gpus, name = min(shared_bounds(payer_list, (key, tiers[key])), default=(0, ""))
            if name:
                bounds[name] = gpus
            apart = key if watched is not None and watched[1] == key else ""
            alike = (tuple(indexes), name, apart)
            payer = (key, tiers[key])
            gpus = payer_list.room(*payer) if rooms_now is None else rooms_now[payer]
            rooms[alike] = rooms.get(alike, 0) + gpus
        heads = {name: network.node() for name in bounds}
        for name, node in heads.items():
            network.edge(node, sink, bounds[name])
        seen = -1
        for (indexes_of, name, apart), room in rooms.items():
            node = network.node()
            network.edge(node, heads[name] if name else sink, room)
            for index in indexes_of:
                edge = network.edge(sources[index], node, room)
                if apart and watched is not None and index == watched[0]:
                    seen = edge
        return cls(network, sink, sources, seen)

    def fill(self, demanded: Sequence[int]) -> list[int]:
        """Return the number of paid GPUs of each demand; earlier demands are served first."""
        return [
            self.network.push(self.sources[index], self.sink, gpus) if gpus else 0
            for index, gpus in enumerate(demanded)
        ]


def shared_bounds(payer_list: PayerList, payer: tuple[EnvelopeId, Tier]) -> list[tuple[int, str]]:
    """Return (GPUs left, name) of each bound that ``payer`` shares with others."""
    return PayerLimits.of(payer_list, *payer).bounds(payer_list)


def is_exact(payer_list: PayerList, payers: Iterable[tuple[EnvelopeId, Tier]]) -> bool:
    """Return whether the relaxation has the same solutions as the problem itself.

    The solutions are the same if each payer is under at most one bound that it shares with others.
    If this bound limits GPU-hours, all payers under the bound must also have equal hold times: then
    the bound on GPU-hours is a bound on the number of GPUs.
    """
    return all(
        len(shared_bounds(payer_list, payer)) <= 1
        and all(
            payer_list.view.caps[cap_key].spec.gpu_ms_max is None
            or len(payer_list.hold_times(cap_key)) == 1
            for cap_key in payer_list.view.envelopes[payer[0]].caps
        )
        for payer in payers
    )


_Ahead = tuple[tuple[EnvelopeId, ...], tuple[CapId, ...]]
"""The payers of a cell and of all later cells, and the caps of these payers."""


def _ahead(payer_list: PayerList, choices: Sequence[Choice]) -> list[_Ahead]:
    """Return, for each cell, the payers and caps of the cell and all later cells.

    The last entry is empty; it stands for the end of the table.
    """
    payers: dict[EnvelopeId, None] = {}
    caps: dict[CapId, None] = {}
    found: list[_Ahead] = [((), ())]
    for _, key, _ in reversed(choices):
        payers[key] = None
        caps.update(dict.fromkeys(payer_list.view.envelopes[key].caps))
        found.append((tuple(payers), tuple(caps)))
    return found[::-1]


@dataclass(slots=True)
class PaymentSearch:
    """Depth-first search for the payers: cell by cell, the largest amount first.

    The search remembers the states that it has met, and searches from each of them only once.
    """

    payer_list: PayerList
    demands: Sequence[Demand]
    steps: SearchBudget
    rooms: Rooms = field(init=False)
    choices: list[Choice] = field(init=False)
    tiers: dict[EnvelopeId, Tier] = field(init=False)
    left: list[int] = field(init=False)
    taken: list[int] = field(init=False)
    by_bisection: bool = field(init=False, default=False)
    limits: dict[EnvelopeId, PayerLimits] = field(init=False, default_factory=dict)
    served: dict[int, list[Served]] = field(init=False, default_factory=dict)
    ahead: list[_Ahead] = field(init=False, default_factory=list)
    dead_ends: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rooms = rooms_of(self.payer_list)
        self.choices = choices_of(self.payer_list, self.demands, self.rooms)
        self.tiers = dict(self.payer_list.payers)
        self.left = [gpus for _, gpus in self.demands]
        self.taken = []

    def _prepare(self) -> None:
        """Compute the data that only the search itself needs.

        ``run`` calls this method after its first check, and only if legs may exist.
        """
        self.ahead = _ahead(self.payer_list, self.choices)
        # If the relaxation is exact, the amounts that leave the remaining demand payable are an
        # interval, and the search finds the top of the interval by bisection. If the relaxation is
        # not exact, the search tries every amount.
        self.by_bisection = is_exact(self.payer_list, {(k, tier) for _, k, tier in self.choices})

    def run(self) -> list[Leg] | None:
        """Return the lexicographically first legs, or None if the search finds none.

        If steps of the search budget are left, None proves that no legs can pay for the demand.
        """
        if not self._rest_payable(0, self.rooms):
            return None
        self._prepare()
        stack = [self._amounts(0)]
        while stack:
            gpus = next(stack[-1], None)
            if gpus is None:
                stack.pop()
                if self.taken:
                    self._undo()
                if self.steps.exhausted:
                    return None
                continue
            self._do(gpus)
            if not any(self.left):
                return self._legs()
            if len(self.taken) < len(self.choices) and self._is_new():
                stack.append(self._amounts(len(self.taken)))
            else:
                self._undo()
        return None

    def _legs(self) -> list[Leg]:
        payer_list = self.payer_list
        return [
            Leg(index, key, tier, gpus, payer_list.hold_ms(payer_list.view.envelopes[key]))
            for (index, key, tier), gpus in zip(self.choices, self.taken, strict=False)
            if gpus
        ]

    def _do(self, gpus: int) -> None:
        index, key, tier = self.choices[len(self.taken)]
        self.payer_list.take(key, tier, gpus)
        self.left[index] -= gpus
        self.taken.append(gpus)

    def _undo(self) -> None:
        gpus = self.taken.pop()
        index, key, tier = self.choices[len(self.taken)]
        self.left[index] += gpus
        self.payer_list.take(key, tier, -gpus)

    def _is_new(self) -> bool:
        """Return whether the search meets this state for the first time.

        Two states are the same if the same demand is left to pay for, and if the same amounts are
        taken from each payer and each cap that later cells use. Nothing else in the earlier choices
        matters.
        """
        payer_list, (payers, caps) = self.payer_list, self.ahead[len(self.taken)]
        state = (
            len(self.taken),
            (
                *self.left,
                *(payer_list.taken.get(key, 0) for key in payers),
                *(payer_list.cap_gpus.get(key, 0) for key in caps),
                *(payer_list.cap_gpu_ms.get(key, 0) for key in caps),
                payer_list.borrowed,
            ),
        )
        if state in self.dead_ends:
            return False
        self.dead_ends.add(state)
        return True

    def _limits(self, key: EnvelopeId) -> PayerLimits:
        known = self.limits.get(key)
        if known is None:
            known = self.limits[key] = PayerLimits.of(self.payer_list, key, self.tiers[key])
        return known

    def _amounts(self, at: int) -> Iterator[int]:
        """Yield the amounts to try in cell ``at``, largest first.

        Amounts after which the remaining demand cannot be paid for are left out.
        """
        index, key, _ = self.choices[at]
        most = min(self.left[index], self._limits(key).room(self.payer_list))
        if most == 0:
            yield 0  # No demand or no room is left, so the cell is 0.
            return
        top, is_interval = most + 1, self.by_bisection
        if is_interval:
            top = most if self._possible(at, most) else self._below(at, most)
            yield top
        for gpus in range(top - 1, -1, -1):
            if self._possible(at, gpus):
                yield gpus
            elif is_interval or self.steps.exhausted:
                return

    def _below(self, at: int, impossible: int) -> int:
        """Return the largest possible amount for cell ``at``; it is less than ``impossible``.

        The possible amounts are an interval. One flow that pays for the remaining demand has a
        possible amount in this cell, and the bisection starts at this amount.
        """
        relaxation = Relaxation.build(
            self.payer_list, self.choices[at:], self.left, watched=self.choices[at]
        )
        relaxation.fill(self.left)
        possible = relaxation.network.flow_on(relaxation.watched)
        while impossible - possible > 1:
            middle = (possible + impossible) // 2
            if self._possible(at, middle):
                possible = middle
            else:
                impossible = middle
        return possible

    def _possible(self, at: int, gpus: int) -> bool:
        """Return whether taking ``gpus`` in cell ``at`` may leave the remaining demand payable."""
        index, key, tier = self.choices[at]
        self.payer_list.take(key, tier, gpus)
        self.left[index] -= gpus
        found = self._rest_payable(at + 1)
        self.left[index] += gpus
        self.payer_list.take(key, tier, -gpus)
        return found

    def _rest_payable(self, at: int, rooms: Rooms | None = None) -> bool:
        """Return whether the relaxation can pay the remaining demand with the cells from ``at`` on.

        If no GPUs are taken yet, the caller may give ``rooms``, which says how many GPUs each payer
        can pay for.
        """
        rest = self.choices[at:]
        if not self.steps.spend(1 + len(rest) // CELLS_PER_STEP):
            return False
        if len(self.left) > DEMANDS_MAX:
            relaxation = Relaxation.build(self.payer_list, rest, self.left, rooms_now=rooms)
            return relaxation.fill(self.left) == self.left
        served = self.served.get(at)
        if served is None:
            masks: dict[EnvelopeId, int] = {}
            for index, key, _ in rest:
                masks[key] = masks.get(key, 0) | 1 << index
            served = [(self._limits(key), mask) for key, mask in masks.items()]
            self.served[at] = served
        return can_pay(self.payer_list, self.left, served)


def pay(payer_list: PayerList, demands: Sequence[Demand], steps: SearchBudget) -> list[Leg] | None:
    """Return the lexicographically first legs that pay for ``demands``, or None if none are found.

    If steps are left in ``steps``, None proves that no legs can pay. No GPUs may be taken in
    ``payer_list`` before the call, and none are taken there after the call.
    """
    if not payer_list.payers:
        return None
    legs = payer_list.greedy(demands)
    if legs is None:
        legs = PaymentSearch(payer_list, demands, steps).run()
    payer_list.reset()
    return legs


def payable(payer_list: PayerList, demands: Sequence[Demand]) -> list[int]:
    """Return how many GPUs of each demand can be paid for, if earlier demands are served first.

    The result is exact if no envelope shares more than one bound with other envelopes; otherwise it
    is an upper bound.
    """
    wanted = [gpus for _, gpus in demands]
    rooms = rooms_of(payer_list)
    choices = choices_of(payer_list, demands, rooms)
    return Relaxation.build(payer_list, choices, wanted, rooms_now=rooms).fill(wanted)
