"""A page of events reads a bounded number of events, however many belong to other tenants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.signing import file_signer
from quorate.core.commands import Apply, Complete, Submit
from quorate.ledger.archive import ArchivedRow
from quorate.ledger.chain import seal
from quorate.loop.engine import Engine
from quorate.model.events import Event, RunRefused, RunSubmitted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Owner, Run
from quorate.operations.caller import Caller, Role
from quorate.operations.ledger.following import Follower
from quorate.operations.ledger.ledger_history import LOOKED_AT_MAX
from quorate.operations.ledger.ledger_operations import ListEvents, WatchEvents
from quorate.operations.request_context import RequestContext
from quorate.operations.table import OPERATIONS
from quorate.service.daemon import Extras
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from tests.service.serving import new_ledger, serving

SMALL = Caller(actor="small/ann", role=Role.USER, user="ann", tenant="small")
BLOCK_EVENTS = 5_000


def _ledger_of_others(folder: Path, events: int) -> tuple[Path, int, HandClock]:
    """Return a ledger with ``events`` events of another tenant, then one run of ``small``.

    Its clock shows the same time for ever: at a later time a service would record why the run
    waits, because no decision has examined the run yet.
    """
    path = new_ledger(folder)
    with SqliteStore.open(path) as store:
        engine = Engine.open(store, HandClock())
        clock = HandClock(engine.recorded_ms + 1_000)
        engine = Engine.open(store, clock)
        owners = (Owner(name="large"), Owner(name="small"))
        assert not engine.execute(Apply(owners), actor="test").decision.refusals
        head, at_ms = engine.head, engine.recorded_ms
        first = Run(name="foreign", owner="large", flavors=("H100",), gpus=1, user="u")
        refusal = Refusal(code=RefusalCode.INSUFFICIENT_CAPACITY, subject="H100", wanted=1, short=1)
        again = RunRefused(at_ms=at_ms, actor="test", run="foreign", refusal=refusal)
        block: list[Event] = [RunSubmitted(at_ms=at_ms, actor="test", run=first)]
        while events:
            block += [again] * min(events, BLOCK_EVENTS)
            events -= min(events, BLOCK_EVENTS)
            sealed = seal(head, block)
            store.append(sealed, expected=head)
            head, block = sealed.head, []
        mine = Run(name="mine", owner="small", flavors=("H100",), gpus=1, user="ann")
        sealed = seal(head, [RunSubmitted(at_ms=at_ms, actor="test", run=mine)])
        store.append(sealed, expected=head)
        return path, sealed.head.seq, clock


@pytest.mark.slow
def test_a_small_tenant_pages_through_many_events_of_others(tmp_path: Path) -> None:
    path, end, clock = _ledger_of_others(tmp_path, 2 * LOOKED_AT_MAX)
    extras = Extras(signer=file_signer(path), clock=clock)
    with serving(path, extras=extras) as served, served.client(served.token) as admin:
        body = {"role": "user", "user": "ann", "tenant": "small"}
        token = admin.post("/api/v1/tokens", json=body).json()["token"]["secret"]
        with served.client(token) as ann:
            first, pages, found = 1, 0, []
            while first <= end:
                answer = ann.get("/api/v1/ledger/events", params={"from": first, "limit": 100})
                assert answer.status_code == 200, answer.text
                page: dict[str, Any] = answer.json()
                # Each page moves on, by no more than the bound on events of a page.
                assert first < page["next"] <= first + LOOKED_AT_MAX
                found += page["items"]
                first, pages = page["next"], pages + 1
                assert pages <= 4
            assert pages == 3
            assert [each["run"]["name"] for each in found if "run" in each] == ["mine"]
            last = ann.get("/api/v1/ledger/events", params={"limit": 1}).json()
            assert [each["run"]["name"] for each in last["items"]] == ["mine"]
            told = ann.get("/api/v1/ledger/events", params={"run": "mine"}).json()
            assert [each["seq"] for each in told["items"]] == [end]


class CountingStore(MemoryStore):
    """A store that counts the look-ups in its archive."""

    looked_up = 0

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        self.looked_up += 1
        return super().archived_run(name, upto_seq)


def test_events_of_archived_runs_of_others_are_passed_over_without_reading_the_archive() -> None:
    store = CountingStore()
    engine = memory_engine(store)
    owners = (Owner(name="team"), Owner(name="small"))
    setup = Apply((*fleet({"A": 16}), *owners, budget("b", "team", envelope("e", 16))))
    assert not engine.execute(setup, actor="t").decision.refusals
    for number in range(50):
        engine.execute(Submit(run(f"r{number}", 2)), actor="t")
        engine.execute(Complete(f"r{number}"), actor="t")
    engine.snapshot_events = 1
    engine.execute(Submit(run("last", 2)), actor="t")
    archive = engine.view.runs.archive
    assert archive is not None
    assert archive.count() == 50
    context = RequestContext(engine, SMALL)
    store.looked_up = 0
    listed = OPERATIONS["list-events"].handle()(
        context, ListEvents(first=1), OPERATIONS["list-events"]
    )
    tags = {each["tag"] for each in listed.tree()["items"]}
    assert not any(tag.startswith(("run-", "lease-")) for tag in tags)
    assert listed.tree()["next"] == engine.head.seq + 1
    follower = OPERATIONS["watch-events"].handle()(
        context, WatchEvents(first=1), OPERATIONS["watch-events"]
    )
    assert isinstance(follower, Follower)
    follower.read(1_000)
    assert follower.cursor == engine.head.seq
    assert store.looked_up == 0
