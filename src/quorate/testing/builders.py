"""Builders for tests and benchmarks: small fleets, owners, budgets and runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.model.amounts import HOUR_MS
from quorate.model.events import (
    BudgetApplied,
    Event,
    LedgerOpened,
    NodeApplied,
    OwnerApplied,
    PoolApplied,
)
from quorate.model.selector import Selector
from quorate.model.specs import (
    Budget,
    Cap,
    Envelope,
    Funding,
    Lending,
    Node,
    Owner,
    Pool,
    Run,
)
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State

NOW_MS = 1_700_000_000_000
WINDOW_START_MS = NOW_MS - 1_000 * HOUR_MS
WINDOW_END_MS = NOW_MS + 1_000 * HOUR_MS
ANYWHERE: Selector = (("region", "r"),)


def node(
    name: str, gpus: int = 8, domain: str = "A", flavor: str = "H100", *, rack: str | None = None
) -> Node:
    """Return a node in region ``r``, cluster ``c``."""
    return Node(
        name=name, flavor=flavor, gpus=gpus, region="r", cluster="c", domain=domain, rack=rack
    )


def fleet(domains: dict[str, int], *, gpus: int = 8, flavor: str = "H100") -> list[Node]:
    """Return nodes of ``gpus`` GPUs; ``domains`` has the total number of GPUs of each domain.

    The last node of a domain may be smaller.
    """
    found = []
    for domain, total in domains.items():
        full, rest = divmod(total, gpus)
        sizes = [gpus] * full + ([rest] if rest else [])
        found += [
            node(f"{domain.lower()}{number:04d}", size, domain, flavor)
            for number, size in enumerate(sizes)
        ]
    return found


def envelope(  # noqa: PLR0913 - a builder: every field of an envelope may matter to a test
    name: str,
    concurrency: int,
    *,
    flavor: str = "H100",
    selector: Selector = ANYWHERE,
    start_ms: int = WINDOW_START_MS,
    end_ms: int = WINDOW_END_MS,
    gpu_ms_max: int | None = None,
    lending: Lending | None = None,
) -> Envelope:
    """Return an envelope whose window is open at ``NOW_MS``."""
    return Envelope(
        name=name,
        flavor=flavor,
        selector=selector,
        start_ms=start_ms,
        end_ms=end_ms,
        concurrency=concurrency,
        gpu_ms_max=gpu_ms_max,
        lending=Lending() if lending is None else lending,
    )


def budget(name: str, owner: str, *envelopes: Envelope, caps: Iterable[Cap] = ()) -> Budget:
    """Return a budget."""
    return Budget(name=name, owner=owner, envelopes=envelopes, caps=tuple(caps))


def lending(
    *to: str,
    concurrency_max: int | None = None,
    gpu_ms_max: int | None = None,
    recall_notice_ms: int | None = None,
) -> Lending:
    """Return terms of lending to the owners ``to``, or to any owner if ``to`` is empty."""
    return Lending(
        allow=True,
        to=to,
        concurrency_max=concurrency_max,
        gpu_ms_max=gpu_ms_max,
        recall_notice_ms=recall_notice_ms,
    )


def run(name: str, gpus: int, owner: str = "team", **more: object) -> Run:
    """Return a run of ``gpus`` H100s; ``more`` are fields of ``Run``."""
    fields: dict[str, object] = {"flavors": ("H100",), "user": "alice"} | more
    return Run(name=name, owner=owner, gpus=gpus, **fields)  # type: ignore[arg-type]


def borrowing(gpus: int | None = None, *sponsors: str) -> Funding:
    """Return funding that allows borrowing."""
    return Funding(allow_borrow=True, borrow_gpus_max=gpus, sponsors=sponsors)


def opening(
    *,
    nodes: Sequence[Node] = (),
    owners: Sequence[Owner] = (),
    budgets: Sequence[Budget] = (),
    pools: Sequence[Pool] = (),
    at_ms: int = NOW_MS,
) -> list[Event]:
    """Return the first events of a ledger that declare these nodes, owners, budgets and pools.

    Owners named by budgets are declared even if they are not given.
    """
    named = {owner.name for owner in owners}
    missing = [Owner(name=name) for name in sorted({b.owner for b in budgets} - named)]
    events: list[Event] = [LedgerOpened(at_ms=at_ms, actor="test", ledger_id="test", public_key="")]
    events += [PoolApplied(at_ms=at_ms, actor="test", pool=spec) for spec in pools]
    events += [NodeApplied(at_ms=at_ms, actor="test", node=spec) for spec in nodes]
    events += [OwnerApplied(at_ms=at_ms, actor="test", owner=spec) for spec in (*missing, *owners)]
    events += [BudgetApplied(at_ms=at_ms, actor="test", budget=spec) for spec in budgets]
    return events


def world(
    *,
    nodes: Sequence[Node] = (),
    owners: Sequence[Owner] = (),
    budgets: Sequence[Budget] = (),
    pools: Sequence[Pool] = (),
    at_ms: int = NOW_MS,
) -> State:
    """Return the state in which these nodes, owners, budgets and pools were declared."""
    state = State()
    apply_all(
        state,
        opening(nodes=nodes, owners=owners, budgets=budgets, pools=pools, at_ms=at_ms),
    )
    return state
