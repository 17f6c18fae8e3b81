"""The cost of finding payers among 1,000 owners, 5,000 envelopes and 500 caps.

Owners are in families of ten, and half of all envelopes are under a cap. In six of ten families,
most envelopes can pay. In three of ten, half of the teams have used up their envelopes, and
siblings' envelopes pay for these teams. In one of ten, all envelopes of the family are used up, and
its teams borrow. Requests are drawn from four cases in fixed proportions, with random owners and
places. The number of owners is also varied.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from statistics import median
from time import process_time
from typing import Final

from benchmarks.figure import Baseline, Effort, Figure, percentile
from benchmarks.scan_cover import scan_cover
from benchmarks.worlds import (
    CLUSTERS,
    FAMILY_SIZE,
    FLAVOR,
    GANGS,
    REGION_NAME,
    budgets,
    families,
    owner_name,
)
from quorate.core.admission.cover import Covered, plan_cover
from quorate.core.admission.payers import CoverRequest, Demand, Place
from quorate.model.amounts import HOUR_MS
from quorate.model.selector import CLUSTER, DOMAIN, REGION
from quorate.model.specs import EnvelopeId, envelope_id
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, world

FEW: Final = 100
OWNERS: Final = 1_000
MANY: Final = 4_000
CONCURRENCY: Final = 64
SHARES: Final = {"own": 60, "family": 25, "sponsors": 10, "any lender": 5}
"""The number of requests of each case, in a hundred."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, and the places of its GPUs."""

    case: str
    request: CoverRequest
    demands: list[Demand]


def measure(effort: Effort) -> list[Figure]:
    """Return the median cost of a cover, and its growth with the number of other owners."""
    count = effort.of(20_000, 1_000)
    worlds = {owners: _world(owners) for owners in (FEW, OWNERS, MANY)}
    asks = _asks(OWNERS, count)
    return [_cost(worlds[OWNERS], asks, effort), _growth(worlds[FEW], worlds[MANY], count)]


def _cost(state: State, asks: list[Ask], effort: Effort) -> Figure:
    first = _first_us(state, asks)
    _times(state, asks)
    times = _times(state, asks)
    everything = _joined(times)
    return Figure(
        name=f"cover, {OWNERS:,} owners, median",
        unit="us",
        value=median(everything),
        better="less",
        target=40,
        baseline=Baseline("scanning every envelope", _scan_us(state, asks[: effort.of(100, 10)])),
        details={
            "envelopes": len(state.envelopes),
            "caps": len(state.caps),
            "p95 us": percentile(everything, 95),
            "an owner's first after a change, median us": first,
            **{f"{case}, median us": median(found) for case, found in times.items()},
        },
    )


def _growth(few: State, many: State, count: int) -> Figure:
    """Return the cost of the same requests among many owners, relative to few owners."""
    asks, everybody = _asks(FEW, count), _asks(MANY, count)
    for state, warming in ((few, asks), (many, asks), (many, everybody)):
        _times(state, warming)
    before, after = _times(few, asks), _times(many, asks)
    least, most = median(_joined(before)), median(_joined(after))
    return Figure(
        name=f"cover cost, among {MANY:,} owners over {FEW}",
        unit="x",
        value=most / least,
        better="less",
        target=1.5,
        details={
            f"us among {FEW}": least,
            f"us among {MANY:,}": most,
            f"us asked by all {MANY:,}": median(_joined(_times(many, everybody))),
            **{f"{case}, x": median(after[case]) / median(before[case]) for case in SHARES},
        },
    )


def _joined(times: dict[str, list[float]]) -> list[float]:
    return [took for found in times.values() for took in found]


def _times(state: State, asks: list[Ask]) -> dict[str, list[float]]:
    """Return the microseconds of each cover, by case."""
    found: dict[str, list[float]] = {case: [] for case in SHARES}
    for ask in asks:
        start = process_time()
        answer = plan_cover(state, ask.request, ask.demands)
        took = process_time() - start
        assert isinstance(answer, Covered), (ask, answer)
        found[ask.case].append(1e6 * took)
    return found


def _first_us(state: State, asks: list[Ask]) -> float:
    """Return the median microseconds of owners' first covers, which compute the payers."""
    by_owner = {ask.request.owner: ask for ask in reversed(asks)}
    return median(_joined(_times(state, list(by_owner.values()))))


def _scan_us(state: State, asks: list[Ask]) -> float:
    """Return the median microseconds of the plain scan, which must give the same answer."""
    found = []
    for ask in asks:
        start = process_time()
        answer = scan_cover(state, ask.request, ask.demands)
        found.append(1e6 * (process_time() - start))
        assert answer == plan_cover(state, ask.request, ask.demands), (ask, answer)
    return median(found)


def _case_of(family: int) -> str:
    """Return the case of family number ``family``, which says who pays for its teams."""
    return ("own", "own", "own", "own", "own", "own", "family", "family", "family", "borrow")[
        family % 10
    ]


def _world(owners: int) -> State:
    """Return the state with all declarations, and with usage according to the families' cases."""
    found = budgets(owners, concurrency=CONCURRENCY)
    state = world(owners=families(owners), budgets=found)
    rng = Random(2)
    for number, budget in enumerate(found):
        family, place = divmod(number, FAMILY_SIZE)
        case = _case_of(family)
        spent = case == "borrow" or (case == "family" and place % 2)
        for envelope in budget.envelopes:
            lends = envelope.lending.allow
            gpus = CONCURRENCY if spent and not lends else rng.randrange(CONCURRENCY // 8)
            if lends and case == "borrow":
                gpus = CONCURRENCY
            _use(state, envelope_id(budget.name, envelope.name), gpus)
    return state


def _use(state: State, key: EnvelopeId, gpus: int) -> None:
    """Charge an envelope as for leases of ``gpus`` GPUs, or of as many GPUs as its caps allow."""
    account = state.envelopes.own(key)
    caps = [state.caps.own(cap) for cap in account.caps]
    room = [(cap.spec.concurrency_max or 0) - cap.gpus_active for cap in caps]
    gpus = min([gpus, *room])
    account.gpus_active += gpus
    account.committed_gpu_ms += gpus * HOUR_MS
    for cap in caps:
        cap.gpus_active += gpus
        cap.committed_gpu_ms += gpus * HOUR_MS


def _asks(owners: int, count: int) -> list[Ask]:
    """Return requests in the proportions of ``SHARES``, each from an owner of the right case."""
    rng = Random(3)
    teams: dict[str, list[int]] = {"own": [], "family": [], "borrow": []}
    for number in range(owners):
        family, place = divmod(number, FAMILY_SIZE)
        case = _case_of(family)
        if place and (case != "family" or place % 2):
            teams[case].append(number)
    cases = rng.choices(list(SHARES), list(SHARES.values()), k=count)
    return [_ask(case, teams, owners, rng) for case in cases]


def _ask(case: str, teams: dict[str, list[int]], owners: int, rng: Random) -> Ask:
    borrows = case in ("sponsors", "any lender")
    number = rng.choice(teams["borrow" if borrows else case])
    gpus = rng.choice(GANGS[:4] if borrows else GANGS)
    sponsors: tuple[str, ...] = ()
    if case == "sponsors":
        rich = [n for n in range(0, owners, FAMILY_SIZE) if _case_of(n // FAMILY_SIZE) == "own"]
        sponsors = tuple(owner_name(n) for n in rng.sample(rich, 3))
    request = CoverRequest(
        owner=owner_name(number),
        flavor=FLAVOR,
        now_ms=NOW_MS,
        duration_ms=HOUR_MS,
        allow_borrow=borrows,
        borrow_gpus_left=32 if borrows else None,
        sponsors=sponsors,
    )
    # A gang of a whole domain or more is divided between two domains.
    parts = (gpus // 2, gpus - gpus // 2) if gpus > 64 else (gpus,)
    return Ask(case, request, [(_place(rng), part) for part in parts])


def _place(rng: Random) -> Place:
    domain = rng.randrange(200)
    cluster = f"c{domain % CLUSTERS}"
    name = f"d{domain:03d}"
    labels = {REGION: REGION_NAME, CLUSTER: cluster, DOMAIN: name}
    return Place(f"{REGION_NAME}/{cluster}/{name}", labels)
