"""A trial: the simulation of one random world with faults, all drawn from one seed.

Each part draws from its own random generator, so that a change of one part leaves the draws of all
other parts as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Cancel, Submit
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.specs import Node, Run
from quorate.model.state.records import Phase
from quorate.ports.store_port import EventStore
from quorate.sim.demand import START_MS, Size
from quorate.sim.fault_plan import Courier, CrashingStore, FaultRates, Faults, stop_delays, wipes
from quorate.sim.random_world import World, draw_world
from quorate.sim.request_demand import draw_requests
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import Observer, Simulation, Timeline, VirtualClock

Draw = Callable[[Random, Size], World]
"""A function that draws a world from a random generator."""
CALM_MS: Final = 24 * HOUR_MS
"""How long a trial continues after the last fault: long enough for every repair."""

_LOOKS_MAX: Final = 20
"""The most times that a caller looks for its run in the ledger before it gives up."""
_SNAPSHOT_EVENTS: Final = 150
"""A trial stores a snapshot after this many events, so that engines also open from snapshots."""


class Trial:
    """The simulation for one seed. ``observers`` see all its decisions; see ``Observer``.

    ``draw`` draws the world. Without a ``store``, the ledger is in memory.
    """

    def __init__(
        self,
        seed: int,
        *,
        size: Size | None = None,
        observers: Sequence[Observer] = (),
        draw: Draw = draw_world,
        store: EventStore | None = None,
    ) -> None:
        self.seed = seed
        size = Size() if size is None else size
        self.world: World = draw(Random(f"{seed}/world"), size)
        self.requests = draw_requests(Random(f"{seed}/requests"), size, self.world)
        rates = draw_rates(Random(f"{seed}/rates"))
        self.rates = FaultRates() if self.world.is_honest else rates
        self.timeline = Timeline(VirtualClock(START_MS))
        self.store = CrashingStore(MemoryStore() if store is None else store)
        truths = {arrival.run.name: arrival.truth for arrival in self.world.arrivals}
        flavors = {spec.name: spec.flavor for spec in self.world.specs if isinstance(spec, Node)}
        self.executor = SimExecutor(
            self.timeline,
            truth_of=partial(_truth_of, truths),
            stop_delay=stop_delays(self.rates, Random(f"{seed}/stops")),
            notice_ms=10 * MINUTE_MS,
            wipe=wipes(Random(f"{seed}/wipes"), is_honest=self.world.is_honest),
            flavor_of=flavors.__getitem__,
        )
        self.simulation = Simulation(
            self.timeline,
            self.store,
            self.executor,
            observers=observers,
            snapshot_events=_SNAPSHOT_EVENTS,
        )

    def run(self) -> None:
        """Run the whole trial, then a time without faults in which repairs complete."""
        world, timeline = self.world, self.timeline
        chance = Random(f"{self.seed}/courier")
        courier = Courier(self.simulation, self.executor, self.rates, chance)
        courier.insist(Apply(world.specs), actor="operator")
        for arrival in world.arrivals:
            submit = self.requests.submits.get(arrival.run.name, Submit(arrival.run))
            timeline.at(arrival.at_ms, partial(courier.send, submit))
            give_up = partial(self._give_up, courier, arrival.run.name)
            timeline.at(arrival.at_ms + arrival.patience_ms, give_up)
        for wish in world.wishes:
            timeline.at(wish.at_ms, partial(courier.send, wish.command))
        chance = Random(f"{self.seed}/requests-courier")
        other = Courier(self.simulation, self.executor, self.rates, chance)
        for wish in self.requests.wishes:
            timeline.at(wish.at_ms, partial(other.send, wish.command))
        Faults(
            self.simulation,
            self.executor,
            self.store,
            self.rates,
            nodes=world.nodes,
            chance=Random(f"{self.seed}/faults"),
            until_ms=world.until_ms,
        ).begin()
        self.simulation.run(world.until_ms + CALM_MS)

    def _give_up(self, courier: Courier, run: str, looks: int = _LOOKS_MAX) -> None:
        """Withdraw a run that still waits.

        Try again later, at most ``looks`` times, if the engine is down or does not know the run.
        """
        engine = self.simulation.engine
        record = None if engine is None else engine.view.runs.get(run)
        if record is None:
            # The submission has not arrived yet, or was refused.
            if looks:
                again = partial(self._give_up, courier, run, looks - 1)
                self.timeline.after(15 * MINUTE_MS, again)
        elif record.phase is Phase.PENDING:
            courier.insist(Cancel(run, "waited long enough"), actor="people")


def draw_rates(chance: Random) -> FaultRates:
    """Return how often each kind of fault happens; some trials leave out some kinds."""
    return FaultRates(
        node_loss_ms=chance.choice((0, HOUR_MS // 2, HOUR_MS, 6 * HOUR_MS)),
        upkeep_ms=chance.choice((0, HOUR_MS, 5 * HOUR_MS)),
        crash_ms=chance.choice((0, HOUR_MS, 6 * HOUR_MS)),
        clock_jump_ms=chance.choice((0, 0, 4 * HOUR_MS)),
        late_percent=chance.choice((0, 20)),
        twice_percent=chance.choice((0, 20)),
        slow_stop_percent=chance.choice((0, 20, 50)),
        hanging_stop_percent=chance.choice((0, 5)),
        declared_crash_percent=chance.choice((0, 30)),
    )


def _truth_of(truths: dict[str, Truth], run: Run) -> Truth:
    if run.sensitive:
        # The work of the run takes its declared time, or an hour; no start depends on this.
        return Truth(work_ms=run.expected_duration_ms or HOUR_MS, checkpoint_every_ms=HOUR_MS)
    return truths[run.name]
