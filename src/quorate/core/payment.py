"""Payment: who pays how much of which demand, exactly.

Taking the most from each payer in order is tried first; what follows is for when that does not pay.

Overlapping caps make the problem hard in general, so the search is bounded by ``Steps``; a small
maximum flow prunes it so well that, without overlapping caps, it never turns back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from quorate.core.flow import FlowNetwork
from quorate.core.purse import Demand, Leg, Purse
from quorate.core.steps import Steps
from quorate.model.events import Tier
from quorate.model.specs import EnvelopeId

Choice = tuple[int, EnvelopeId, Tier]
"""(demand, payer, tier): one cell of the table to be filled in."""


def choices_of(purse: Purse, demands: Sequence[Demand]) -> list[Choice]:
    """Return the cells that could be more than zero, in lexicographic order."""
    payers = [(key, tier) for key, tier in purse.payers if purse.room(key, tier) > 0]
    return [
        (index, key, tier)
        for index, (place, _) in enumerate(demands)
        for key, tier in payers
        if purse.pays_at(key, place.labels)
    ]


@dataclass(slots=True)
class Relaxation:
    """What is left in a purse as a flow: demands to payers, each payer under its tightest bound.

    Bounds shared by several payers beyond the tightest are dropped, which only makes paying
    easier: too little flow is a proof that the rest cannot be paid.
    """

    network: FlowNetwork
    sink: int
    sources: dict[int, int]
    edges: list[int]

    @classmethod
    def build(cls, purse: Purse, choices: Sequence[Choice], demanded: Sequence[int]) -> Relaxation:
        """Return the network in which only ``choices`` are left to pay for ``demanded``."""
        network = FlowNetwork()
        sink = network.node()
        sources = {index: network.node() for index, gpus in enumerate(demanded) if gpus}
        bounds: dict[str, int] = {}
        payers: dict[EnvelopeId, tuple[int, int]] = {}
        edges: list[int] = []
        for index, key, tier in choices:
            if index not in sources:
                edges.append(-1)
                continue
            if key not in payers:
                room, node = purse.room(key, tier), network.node()
                payers[key] = (node, room)
                network.edge(node, _bound_node(network, bounds, purse, (key, tier), sink), room)
            node, room = payers[key]
            edges.append(network.edge(sources[index], node, room))
        return cls(network, sink, sources, edges)

    def fill(self, demanded: Sequence[int]) -> list[int]:
        """Return how much of each demand gets through, earlier ones first."""
        return [
            self.network.push(self.sources[index], self.sink, gpus) if gpus else 0
            for index, gpus in enumerate(demanded)
        ]


def _bound_node(
    network: FlowNetwork,
    bounds: dict[str, int],
    purse: Purse,
    payer: tuple[EnvelopeId, Tier],
    sink: int,
) -> int:
    """Return the node of the tightest shared bound that ``payer`` is under, else the sink."""
    limits = shared_bounds(purse, payer)
    if not limits:
        return sink
    gpus, name = min(limits)
    if name not in bounds:
        bounds[name] = network.node()
        network.edge(bounds[name], sink, gpus)
    return bounds[name]


def shared_bounds(purse: Purse, payer: tuple[EnvelopeId, Tier]) -> list[tuple[int, str]]:
    """Return (GPUs left, name) of each bound that ``payer`` shares with others."""
    key, tier = payer
    limits: list[tuple[int, str]] = []
    for cap_key in purse.view.envelopes[key].caps:
        cap = purse.view.caps[cap_key]
        if cap.spec.concurrency_max is not None:
            used = cap.gpus_active + cap.gpus_reserved + purse.cap_gpus.get(cap_key, 0)
            limits.append((max(0, cap.spec.concurrency_max - used), f"cap {cap_key}"))
    if tier is Tier.BORROWED and purse.request.borrow_gpus_left is not None:
        left = purse.request.borrow_gpus_left - purse.borrowed
        limits.append((max(0, left), "borrow limit"))
    return limits


@dataclass(slots=True)
class PaymentSearch:
    """Depth-first over the cells in order, the most first; dead ends are remembered."""

    purse: Purse
    demands: Sequence[Demand]
    steps: Steps
    choices: list[Choice] = field(init=False)
    left: list[int] = field(init=False)
    taken: list[int] = field(init=False)
    by_bisection: bool = field(init=False)
    dead_ends: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.choices = choices_of(self.purse, self.demands)
        self.left = [gpus for _, gpus in self.demands]
        self.taken = []
        # With hours under a shared cap, what fits is not an interval: every amount is tried.
        self.by_bisection = all(
            self.purse.view.caps[cap_key].spec.gpu_ms_max is None
            for _, key, _ in self.choices
            for cap_key in self.purse.view.envelopes[key].caps
        )

    def run(self) -> list[Leg] | None:
        """Return the lexicographically first legs, or None: a proof unless steps ran out."""
        if not self._rest_payable(0):
            return None
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
        purse = self.purse
        return [
            Leg(index, key, tier, gpus, purse.hold_ms(purse.view.envelopes[key]))
            for (index, key, tier), gpus in zip(self.choices, self.taken, strict=False)
            if gpus
        ]

    def _do(self, gpus: int) -> None:
        index, key, tier = self.choices[len(self.taken)]
        self.purse.take(key, tier, gpus)
        self.left[index] -= gpus
        self.taken.append(gpus)

    def _undo(self) -> None:
        gpus = self.taken.pop()
        index, key, tier = self.choices[len(self.taken)]
        self.left[index] += gpus
        self.purse.take(key, tier, -gpus)

    def _is_new(self) -> bool:
        """Return whether this state was not met before: the same left, the same taken."""
        state = (
            len(self.taken),
            (*self.left, *(self.purse.taken.get(key, 0) for key, _ in self.purse.payers)),
        )
        if state in self.dead_ends:
            return False
        self.dead_ends.add(state)
        return True

    def _amounts(self, at: int) -> Iterator[int]:
        """Yield the amounts for cell ``at`` that may leave the rest payable, most first."""
        index, key, tier = self.choices[at]
        most = min(self.left[index], self.purse.room(key, tier))
        top = self._highest(at, most) if self.by_bisection else None
        is_interval = top is not None
        for gpus in range(most if top is None else top, -1, -1):
            if gpus == top or self._possible(at, gpus):
                yield gpus
            elif is_interval:
                return
            if self.steps.exhausted:
                return

    def _highest(self, at: int, most: int) -> int | None:
        """Return the largest possible amount, or None where none is known to start from."""
        if self._possible(at, most):
            return most
        relaxation = Relaxation.build(self.purse, self.choices[at:], self.left)
        relaxation.fill(self.left)
        possible = (
            relaxation.network.flow_on(relaxation.edges[0]) if relaxation.edges[0] >= 0 else 0
        )
        if not self._possible(at, possible):
            return None
        impossible = most
        while impossible - possible > 1:
            middle = (possible + impossible) // 2
            if self._possible(at, middle):
                possible = middle
            else:
                impossible = middle
        return possible

    def _possible(self, at: int, gpus: int) -> bool:
        """Return whether taking ``gpus`` in cell ``at`` may leave the rest payable."""
        index, key, tier = self.choices[at]
        self.purse.take(key, tier, gpus)
        self.left[index] -= gpus
        found = self._rest_payable(at + 1)
        self.left[index] += gpus
        self.purse.take(key, tier, -gpus)
        return found

    def _rest_payable(self, at: int) -> bool:
        """Return whether the cells from ``at`` on could pay what is left, by relaxation."""
        if not self.steps.spend():
            return False
        return (
            Relaxation.build(self.purse, self.choices[at:], self.left).fill(self.left) == self.left
        )


def pay(purse: Purse, demands: Sequence[Demand], steps: Steps) -> list[Leg] | None:
    """Return the lexicographically first legs that pay for ``demands``, or None.

    None is a proof unless ``steps`` ran out. The purse must be empty, and is left so.
    """
    legs = purse.greedy(demands)
    if legs is None:
        legs = PaymentSearch(purse, demands, steps).run()
    purse.reset()
    return legs


def payable(purse: Purse, demands: Sequence[Demand]) -> list[int]:
    """Return how many GPUs of each demand can be paid at most, earlier demands first.

    An upper bound, and exact where no envelope is under two bounds.
    """
    wanted = [gpus for _, gpus in demands]
    return Relaxation.build(purse, choices_of(purse, demands), wanted).fill(wanted)
