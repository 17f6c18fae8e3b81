"""Small ledgers with planned starts: builders, and functions that read the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from quorate.core.commands import Decision, Tick
from quorate.core.planning.foresight import Foreseen, Foresight
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import LeaseStarted, ReservationMade, ReservationMoved
from quorate.model.specs import DEFAULT_POOL, Budget, Envelope, Node, Owner, Pool, Run, Sharing
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.firm_oracle import lacking, places_of
from tests.oracles.lives import Life

FAR_MS = 1_000 * HOUR_MS
"""A horizon that makes every planned start firm."""
OWNERS = ("one", "two", "three")


def quiet_pool(*, horizon_ms: int = FAR_MS, **more: object) -> Pool:
    """Return the default pool without conflicts."""
    pool = Pool(name=DEFAULT_POOL, disruption_gpu_ms_per_day=0, firm_horizon_ms=horizon_ms)
    return replace(pool, **more)


def funds(owner: str, gpus: int = 64) -> Budget:
    """Return a budget of ``owner`` that pays for its own runs only."""
    return budget(f"b-{owner}", owner, alone(envelope("e", gpus)))


def alone(line: Envelope) -> Envelope:
    """Return ``line`` as an envelope that pays for its owner's own runs only."""
    return replace(line, sharing=Sharing.NONE)


def planned_life(
    gpus: int = 8,
    *,
    nodes: Sequence[Node] = (),
    pool: Pool | None = None,
    owners: Sequence[Owner] = (),
    budgets: Sequence[Budget] = (),
    has_executor: bool = False,
) -> Life:
    """Return a ledger with one domain of ``gpus`` and three owners who can each pay for all of it.

    Every planned start is firm unless ``pool`` says otherwise. ``budgets`` replace those of their
    owners.
    """
    given = {each.owner for each in budgets}
    return Life(
        nodes=nodes or fleet({"A": gpus}),
        budgets=[*budgets, *(funds(owner) for owner in OWNERS if owner not in given)],
        owners=owners,
        pools=[pool or quiet_pool()],
        has_executor=has_executor,
    )


def of(name: str, gpus: int, owner: str = "one", minutes: int = 120, **more: object) -> Run:
    """Return a run that declares ``minutes`` and, by default, needs no grace."""
    fields = {"checkpoint_ms": 0} | more
    return run(name, gpus, owner, expected_duration_ms=minutes * MINUTE_MS, **fields)


def firm_ms(life: Life, name: str) -> int | None:
    """Return the firm start of a run, or None."""
    reservation = life.state.runs[name].reservation
    return None if reservation is None else life.state.reservations[reservation].planned_start_ms


def foreseen(life: Life, name: str) -> Foreseen:
    """Return the present plan for a waiting run."""
    foresight = Foresight.of(life.state, life.now_ms, has_executor=life.has_executor)
    return foresight.start_of(life.state.runs[name])


def foreseen_ms(life: Life, name: str) -> int | None:
    """Return the planned start of a waiting run, or None."""
    entry = foreseen(life, name).entry
    return None if entry is None else entry.start_ms


def moves(decision: Decision) -> list[ReservationMoved]:
    """Return the firm starts that moved."""
    return [event for event in decision.events if isinstance(event, ReservationMoved)]


def promises(decision: Decision) -> dict[str, int]:
    """Return the starts that became firm, by run."""
    return {
        event.run: event.planned_start_ms
        for event in decision.events
        if isinstance(event, ReservationMade)
    }


def started(events: Iterable[object]) -> list[tuple[str, int]]:
    """Return (lease, instant) of each start, in order."""
    return [(event.lease, event.start_ms) for event in events if isinstance(event, LeaseStarted)]


def start_ms_of(life: Life, name: str) -> int:
    """Return when a run first started."""
    return next(at_ms for lease, at_ms in started(life.events) if lease.split("/")[0] == name)


def marked(life: Life, name: str) -> list[int]:
    """Return the bundles of a run that are marked as backfill."""
    return [mark.bundle for mark in life.state.runs[name].backfills]


def tick_until(life: Life, until_ms: int) -> list[Decision]:
    """Tick whenever something is due until ``until_ms``, and then; return the decisions."""
    found = []
    for _ in range(1_000):
        due_ms = life.due_ms()
        if due_ms is None or due_ms >= until_ms:
            break
        found.append(life.do(Tick(), due_ms))
    else:
        message = f"still due before {until_ms}"
        raise AssertionError(message)
    found.append(life.do(Tick(), until_ms))
    return found


def clashes(life: Life) -> list[str]:
    """Return a text for each lack of GPUs or money of a firm place, found by brute force.

    A firm place must fit beside all other firm places and the running work.
    """
    places = places_of(life.state)
    return [text for place in places for text in lacking(life.state, place, places)]
