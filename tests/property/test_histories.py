"""Random histories of a small fleet: after every command all invariants hold.

The state machine draws worlds and commands of every kind, valid or not, and advances the time past
holds, windows, planned starts and conflicts. The state, its copies and its snapshots must equal the
fold of the events.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.admission.payers import family_payers
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Complete,
    Decision,
    Draw,
    Resolve,
    Submit,
    Tick,
)
from quorate.core.decide import decide
from quorate.core.preemption.lottery import chain_link
from quorate.ledger.chain import GENESIS, Block, Head, seal
from quorate.ledger.fold import fold, replay
from quorate.ledger.snapshot import cut, restore, take
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Event, LedgerOpened, LotteryCommitted
from quorate.model.specs import (
    Budget,
    Cap,
    Envelope,
    Follow,
    Funding,
    Lending,
    Malleable,
    Node,
    Owner,
    Placement,
    Pool,
    Run,
    System,
)
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS
from quorate.testing.states import same
from tests.oracles.choosing import chooser
from tests.oracles.effort import IS_SOAK, examples, sized
from tests.oracles.walking import walked_events
from tests.oracles.worlds import budgets, choose_funding, choose_selector

_NAMES = ("o0", "o1", "o2", "o3")
_OWNERS = {name: Owner(name=name) for name in _NAMES}
_NODES = tuple(f"n{number}" for number in range(7))
_RUNS = tuple(f"run{number}" for number in range(12))
_SECRET = b"what a history draws by: nothing"
_LOTTERIES = 40

_nodes = st.builds(
    Node,
    name=st.sampled_from(_NODES),
    flavor=st.sampled_from(("H100", "H100", "H100", "A100")),
    gpus=st.integers(1, 4),
    region=st.just("r"),
    cluster=st.just("c"),
    domain=st.sampled_from(("A", "A", "B", "C")),
    rack=st.sampled_from((None, "r1", "r2")),
)
_owners = st.builds(
    Owner,
    name=st.sampled_from(_NAMES),
    parents=st.lists(st.sampled_from(_NAMES), max_size=2, unique=True).map(tuple),
)
_pools = st.builds(
    Pool,
    name=st.sampled_from(("default", "default", "side")),
    selector=st.sampled_from(((), (("fabric.domain", "C"),), (("rack", "r2"),))),
    placement=st.sampled_from(Placement),
    whole_nodes=st.sampled_from((False, False, False, True)),
    expected_duration_ms=st.sampled_from((20 * MINUTE_MS, HOUR_MS)),
    notice_ms=st.sampled_from((MINUTE_MS, 15 * MINUTE_MS)),
    runtime_min_ms=st.sampled_from((None, 0)),
    cool_down_ms=st.sampled_from((None, 0)),
    disruption_rate_ppm=st.sampled_from((10_000, 0, 1_000_000)),
)


@st.composite
def _runs(draw: st.DrawFn) -> Run:
    choose = chooser(draw)
    malleable = None
    gpus = choose.number(1, 6)
    if choose.flip():
        step, low, steps = choose.number(1, 2), choose.number(1, 3), choose.number(0, 2)
        gpus = low + steps * step
        malleable = Malleable(gpus_min=low, gpus_max=gpus, gpus_step=step, gpus_desired=gpus)
    follow = None
    if choose.number(0, 3) == 1:
        follow = Follow(after=tuple(choose.some(_RUNS[:4], 1, 2)))
    return Run(
        name=choose.one_of(_RUNS),
        owner=choose.one_of(_NAMES),
        flavors=choose.one_of((("H100",), ("H100", "A100"), ("A100",))),
        gpus=gpus,
        pool=choose.one_of(("default", "default", "side")),
        malleable=malleable,
        group_gpus=choose.maybe(1, 3),
        cross_group_spread=choose.number(0, 2) > 0,
        spares_per_group=choose.one_of((0, 0, 1)),
        selector=choose_selector(choose),
        expected_duration_ms=choose.one_of((None, 10 * MINUTE_MS, 3 * HOUR_MS)),
        funding=choose_funding(choose, _NAMES),
        follow=follow,
    )


@st.composite
def _plenty(draw: st.DrawFn) -> tuple[Budget, ...]:
    """Draw a budget for each owner that lets its runs start, and is soon used up."""
    choose = chooser(draw)
    found = []
    for owner in _NAMES:
        lines = tuple(
            Envelope(
                name=flavor,
                flavor=flavor,
                selector=(("region", "r"),),
                start_ms=NOW_MS - HOUR_MS,
                end_ms=NOW_MS + choose.number(3, 40) * HOUR_MS // 2,
                concurrency=choose.number(2, 8),
                gpu_ms_max=choose.number(4, 60) * HOUR_MS // 2,
                lending=Lending(
                    allow=choose.flip(),
                    concurrency_max=choose.maybe(1, 4),
                    gpu_ms_max=choose.number(2, 12) * HOUR_MS // 2 if choose.flip() else None,
                ),
            )
            for flavor in ("H100", "A100")
        )
        cap = Cap(
            name="c",
            flavor="H100",
            envelopes=("H100",),
            concurrency_max=choose.maybe(2, 6),
            gpu_ms_max=choose.number(4, 40) * HOUR_MS // 2 if choose.flip() else None,
        )
        caps = (cap,) if choose.flip() else ()
        found.append(Budget(name=f"plenty-{owner}", owner=owner, envelopes=lines, caps=caps))
    return tuple(found)


class Histories(RuleBasedStateMachine):
    """One ledger from its first event on."""

    has_executor = False

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = NOW_MS
        opened = LedgerOpened(at_ms=NOW_MS, actor="test", ledger_id="test", public_key="")
        anchor = chain_link(_SECRET, 0, length=_LOTTERIES).hex()
        chain = LotteryCommitted(at_ms=NOW_MS, actor="test", commitment=anchor, length=_LOTTERIES)
        self.events: list[Event] = [opened, chain]
        self.state = fold(self.events)
        self.head: Head = GENESIS
        self.blocks: list[Block] = []
        self._seal([opened, chain])

    # --- What happens --------------------------------------------------------------------------

    @initialize(
        nodes=st.lists(_nodes, min_size=3, max_size=6, unique_by=lambda n: n.name),
        money=budgets(_OWNERS, gpus=6, racks=True),
        plenty=_plenty(),
    )
    def found(
        self, nodes: list[Node], money: tuple[Budget, ...], plenty: tuple[Budget, ...]
    ) -> None:
        side = Pool(name="side", selector=(("fabric.domain", "C"),))
        owners = (*_OWNERS.values(), Owner(name="poor"))
        self._do(Apply((side, *nodes, *owners, *money, *plenty)))

    @rule(nodes=st.lists(_nodes, min_size=1, max_size=2), pool=_pools, days=st.integers(1, 3))
    def change_the_fleet(self, nodes: list[Node], pool: Pool, days: int) -> None:
        # Nodes and pools in one command, or one after the other, and settings that change nothing.
        if days == 1:
            self._do(Apply((pool, *nodes)))
            return
        self._do(Apply(tuple(nodes)))
        self._do(Apply((pool,) if days == 2 else (System(budget_period_days=days),)))

    @rule(owner=_owners)
    def change_the_family(self, owner: Owner) -> None:
        self._do(Apply((owner,)))

    @rule(data=st.data(), money=budgets(_OWNERS, gpus=8, racks=True))
    def change_a_budget(self, data: st.DataObject, money: tuple[Budget, ...]) -> None:
        """Change the envelopes of a budget in use: more, less, elsewhere, another flavor."""
        name = data.draw(st.sampled_from(sorted(self.state.budgets)))
        old = self.state.budgets[name]
        owner = data.draw(st.sampled_from([old.owner, old.owner, money[0].owner]))
        kept = data.draw(st.booleans())
        lines = {e.name: e for e in (*old.envelopes * kept, *money[0].envelopes)}
        caps = {c.name: c for c in (*old.caps * kept, *money[0].caps)}
        new = Budget(
            name=name, owner=owner, envelopes=tuple(lines.values()), caps=tuple(caps.values())
        )
        self._do(Apply((new, *money[1:])))

    @rule(run=_runs(), fresh=st.booleans(), documents=st.booleans())
    def submit(self, run: Run, fresh: bool, documents: bool) -> None:  # noqa: FBT001 - drawn
        if fresh:
            run = replace(run, name=f"run{len(self.state.runs)}")
        self._do(Apply((run,)) if documents else Submit(run))

    @rule(
        gpus=st.integers(1, 3),
        owner=st.sampled_from(_NAMES),
        hours=st.sampled_from((0, 1, 3)),
        borrows=st.booleans(),
    )
    def submit_something_simple(
        self,
        gpus: int,
        owner: str,
        hours: int,
        borrows: bool,  # noqa: FBT001 - drawn
    ) -> None:
        run = Run(
            name=f"run{len(self.state.runs)}",
            owner=owner,
            gpus=gpus,
            flavors=("H100", "A100"),
            expected_duration_ms=hours * HOUR_MS or None,
            funding=Funding(allow_borrow=borrows),
        )
        self._do(Submit(run))

    @rule(gpus=st.integers(1, 2))
    def borrow(self, gpus: int) -> None:
        """Submit a run of an owner without money."""
        name = f"run{len(self.state.runs)}"
        run = Run(
            name=name,
            owner="poor",
            gpus=gpus,
            flavors=("H100",),
            funding=Funding(allow_borrow=True),
        )
        self._do(Submit(run))

    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        self._do(Complete(data.draw(self._some_run()), has_gone=data.draw(st.booleans())))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        run, now = data.draw(self._some_run()), data.draw(st.booleans())
        self._do(Cancel(run, "no longer wanted", now=now))

    @rule(
        pool=st.sampled_from(("default", "default", "side")),
        flavor=st.sampled_from(("H100", "H100", "A100")),
        domains=st.sampled_from(((), ("r/c/A",), ("r/c/A", "r/c/B"))),
        gpus=st.sampled_from((1, 2, 4, 100)),
    )
    def make_room(self, pool: str, flavor: str, domains: tuple[str, ...], gpus: int) -> None:
        self._do(Resolve(pool, flavor, domains, gpus))

    @rule(ms=st.sampled_from((1, MINUTE_MS, 17 * MINUTE_MS, HOUR_MS, 5 * HOUR_MS)))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self._do(Tick())
        self.settle_conflicts()

    @rule()
    def settle_conflicts(self) -> None:
        """Settle the due conflicts, as an engine does after each of its blocks."""
        for name in tuple(self.state.open_conflicts):
            declared = self.state.conflicts[name].declared
            if declared.due_ms <= self.now_ms:
                index = declared.preimage_index
                link = chain_link(_SECRET, index, length=_LOTTERIES) if declared.tokens else b""
                self._do(Draw(name, link.hex()))

    @rule(ms=st.sampled_from((1, 17 * MINUTE_MS, 5 * HOUR_MS)))
    def time_passes_unnoticed(self, ms: int) -> None:
        self.now_ms += ms

    def _some_run(self) -> st.SearchStrategy[str]:
        running = [n for n, r in self.state.runs.items() if r.phase is Phase.RUNNING]
        return st.sampled_from([*running, *running, *_RUNS[:3]])

    # --- What must hold ------------------------------------------------------------------------

    def _do(self, command: Command) -> None:
        """Decide ``command`` and commit it, with all checks."""
        decision = self._decide(self.state, command)
        assert self._decide(self.state, command) == decision
        assert same(self.state, fold(self.events)) == []
        if decision.refusals:
            assert not decision.events
        self._try_elsewhere(command, decision)
        self._walk_all_the_same(command, decision)
        apply_all(self.state, decision.events)
        self.events.extend(decision.events)
        self._seal(list(decision.events))
        for happened in decision.events:
            note(repr(happened))
            event(type(happened).__name__)

    def _decide(self, state: State, command: Command) -> Decision:
        return decide(
            state, command, now_ms=self.now_ms, actor="test", has_executor=self.has_executor
        )

    def _walk_all_the_same(self, command: Command, decision: Decision) -> None:
        """Check that a decision without a walk writes the same events as a walk."""
        walked = walked_events(self.state, command, self.now_ms, has_executor=self.has_executor)
        if walked is not None and not decision.refusals:
            event("decided without a walk")
            assert decision.events == walked

    def _try_elsewhere(self, command: Command, decision: Decision) -> None:
        """Check that all give the same state: an overlay, a snapshot, an archive, a new fold."""
        after = fold([*self.events, *decision.events])
        over = self.state.overlay()
        apply_all(over, decision.events)
        assert same(over, after) == []
        assert same(self.state, fold(self.events)) == []
        for restored in (restore(take(self.state)), self._archived()):
            assert restored is not None
            assert same(restored, self.state) == []
            assert self._decide(restored, command) == decision
            apply_all(restored, decision.events)
            assert same(restored, after) == []

    def _archived(self) -> State | None:
        """Return the state with every ended run in an archive, and none in memory."""
        made, rows = cut(self.state), MemoryStore()
        rows.save_snapshot(self.head, made.payload, made.rows())
        self.state.runs.thaw()
        found = restore(made.payload, rows)
        if found is not None:
            assert all(record.ended_ms is None for _, record in found.runs.kept())
        return found

    def _seal(self, events: list[Event]) -> None:
        if events:
            self.blocks.append(seal(self.head, events))
            self.head = self.blocks[-1].head

    @invariant()
    def everything_holds(self) -> None:
        assert sweep(self.state) == []
        fresh = fold(self.events)
        for owner, flavor in self.state.family_cache:
            family_payers(fresh, owner, flavor)
        assert same(self.state, fresh) == []

    def teardown(self) -> None:
        assert audit(self.events, view=self.state) == []
        replayed, head = replay(self.blocks)
        assert head == self.head
        assert same(replayed, self.state) == []


TestHistories = pytest.mark.heavy(Histories.TestCase)
TestHistories.settings = settings(
    examples(1 if IS_SOAK else 0.5),
    stateful_step_count=sized(20, 30),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
