"""No batch and no dry run of one tenant delays the writes of other tenants."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.core.commands import Applied, Apply, Submit
from quorate.documents import render
from quorate.model.specs import Owner
from quorate.operations import common_requests
from quorate.operations.answered_by import CPU_S_MAX, Place, place_of
from quorate.operations.batch_bounds import LARGE, WIDTHS_MAX
from quorate.operations.operation import DRY_RUN, Effect
from quorate.operations.request_context import ONLY_A_LEDGER
from quorate.operations.resources import run_operations
from quorate.operations.table import OPERATIONS
from quorate.service.readers.reader_process import ProcessConfig, RemoteReader
from quorate.service.readers.state_reader import Question, Reader, ReaderConfig
from quorate.service.reply import Form
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S, until
from tests.oracles.effort import sized
from tests.service.held import held_service
from tests.service.serving import Served, new_ledger, serving
from tests.service.stopping import stopped_readers
from tests.service.test_reads_beside import waiting_ledger
from tests.service.worlds import ADMIN, run_tree

Tree = dict[str, Any]
STEPS = 128
BATCHES = sized(4, 10)


def costly(name: str) -> Tree:
    """Return a run that is tried at 128 widths, in groups of three with spares."""
    tree = run_tree(name, "team", gpus=STEPS)
    malleable = {"minTotalGPUs": 1, "maxTotalGPUs": STEPS, "stepGPUs": 1}
    more = {"malleable": malleable, "locality": {"groupGPUs": 3}, "sparesPerGroup": 1}
    return tree | {"spec": tree["spec"] | more}


def plain(count: int) -> Tree:
    """Return a batch of runs of one GPU."""
    return {"documents": [run_tree(f"p{number}", "team", gpus=1) for number in range(count)]}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(new_ledger(tmp_path)) as found:
        declare(found)
        yield found


def declare(served: Served) -> None:
    """Declare two owners and 128 GPUs in ``served``; one of the owners may use half of the GPUs."""
    owners = Owner(name="team"), Owner(name="other")
    money = budget("b", "team", envelope("e", 64))
    specs: tuple[Applied, ...] = (*owners, *fleet({"A": 64, "B": 64}), money)
    trees = [render(spec) for spec in specs]
    with served.client(served.token) as admin:
        made = admin.post("/api/v1/apply", json={"documents": trees})
    assert made.status_code == 200, made.text


def token(served: Served, user: str, tenant: str = "team") -> Tree:
    """Return a new token of a user: its id, and its secret."""
    with served.client(served.token) as admin:
        asked = {"role": "user", "user": user, "tenant": tenant}
        made = admin.post("/api/v1/tokens", json=asked)
    assert made.status_code == 200, made.text
    found: Tree = made.json()["token"]
    return found


def head(client: httpx.Client) -> int:
    """Return the sequence of the last event."""
    found: int = client.get("/readyz").json()["sequence"]
    return found


@pytest.mark.soak
def test_small_writes_wait_for_one_large_request_of_others_at_most(tmp_path: Path) -> None:
    bodies = [
        {"documents": [costly(f"m{batch}-{number}") for number in range(WIDTHS_MAX // STEPS)]}
        for batch in range(BATCHES)
    ]
    with ThreadPoolExecutor(BATCHES + 4) as pool, held_service(tmp_path) as held:
        served = held.served
        declare(served)
        stray = token(served, "stray", "other")["id"]
        with (
            served.client(token(served, "ann")["secret"], timeout=300) as ann,
            served.client(token(served, "bob")["secret"], timeout=300) as bob,
            served.client(served.token, timeout=300) as admin,
        ):
            held.hold.set()
            holding = pool.submit(admin.post, "/api/v1/tenants", json={"id": "first"})
            assert held.entered.wait(WAIT_S)
            asking = [pool.submit(ann.post, "/api/v1/runs/batch", json=body) for body in bodies]
            fleet_body = {"documents": [render(Owner(name=f"o{n}")) for n in range(LARGE + 1)]}
            applying = pool.submit(admin.post, "/api/v1/apply", json=fleet_body)
            until(lambda: served.ledger_thread.waiting == BATCHES + 1, "they wait for the ledger")
            small = [
                pool.submit(admin.delete, f"/api/v1/tokens/{stray}"),
                pool.submit(bob.post, "/api/v1/runs", json={"document": run_tree("b", "team")}),
            ]
            until(lambda: served.ledger_thread.waiting == BATCHES + 3, "so do the small ones")
            held.let_go.set()
            answers = [each.result(300) for each in (holding, *small, applying, *asking)]
            assert {each.status_code for each in answers} == {200}, [each.text for each in answers]
            order = [each.json()["events"][0]["seq"] for each in answers]
    before = sum(seq < max(order[1:3]) for seq in order[3:])
    assert before <= 1, f"they waited for {before} large ones"


@pytest.mark.parametrize("path", ["/api/v1/runs/batch", "/api/v1/apply"])
@pytest.mark.parametrize("query", ["", "?dryRun=true"])
def test_a_batch_that_would_hold_up_others_is_refused_with_the_bound(
    served: Served, path: str, query: str
) -> None:
    body = {"documents": [costly(f"m{number}") for number in range(300)]}
    with served.client(token(served, "ann")["secret"]) as ann:
        before = head(ann)
        refused = ann.post(f"{path}{query}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (413, "too-large"), refused.text
        said = refused.json()["detail"]
        assert "300 documents with 38,400 widths in all, over 1,000" in said
        assert "send them in parts, or use a larger spec.malleable.stepGPUs" in said
        assert head(ann) == before, "nothing was recorded"


def test_as_many_plain_runs_as_widths_are_one_batch(served: Served) -> None:
    with served.client(token(served, "ann")["secret"], timeout=120) as ann:
        more = ann.post("/api/v1/runs/batch", json=plain(WIDTHS_MAX + 1))
        assert more.status_code == 413, more.text
        assert "1,001 in one request, over 1,000; send them in parts" in more.json()["detail"]
        made = ann.post("/api/v1/runs/batch", json=plain(WIDTHS_MAX))
        assert made.status_code == 200, made.text
        assert len(made.json()["changes"]) == WIDTHS_MAX


def test_an_admin_describes_a_fleet_of_any_size_beside_few_runs(served: Served) -> None:
    owners = [
        {"apiVersion": "quorate.dev/v1", "kind": "Owner", "metadata": {"name": f"o{n}"}, "spec": {}}
        for n in range(WIDTHS_MAX)
    ]
    with served.client(served.token, timeout=120) as admin:
        documents = [*owners, *plain(2)["documents"]]
        made = admin.post("/api/v1/apply?dryRun=true", json={"documents": documents})
        assert made.status_code == 200, made.text
        refused = admin.post("/api/v1/apply", json=plain(WIDTHS_MAX + 1))
        assert refused.status_code == 413, refused.text


def test_a_dry_run_is_answered_while_the_ledger_is_held_up(tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor(1) as pool,
        held_service(tmp_path) as held,
        held.served.client(held.served.token) as client,
    ):
        held.hold.set()
        writing = pool.submit(client.post, "/api/v1/tenants", json={"id": "slow"})
        assert held.entered.wait(WAIT_S)
        for path, body in (
            ("/runs/batch", {"documents": [run_tree("a"), run_tree("b")]}),
            ("/runs", {"document": run_tree("c")}),
            ("/tenants", {"id": "new"}),
            ("/tick", {}),
        ):
            tried = client.post(f"/api/v1{path}?dryRun=true", json=body)
            assert tried.status_code == 200, tried.text
            assert tried.json()["dryRun"], path
        assert not writing.done()
        held.let_go.set()
        assert writing.result(WAIT_S).status_code == 200


def test_writes_are_answered_while_a_dry_run_is_under_way(served: Served) -> None:
    with (
        served.client(token(served, "ann")["secret"]) as ann,
        served.client(served.token) as admin,
        ThreadPoolExecutor(1) as pool,
    ):
        with stopped_readers():
            document = {"document": run_tree("tried", "team")}
            trying = pool.submit(ann.post, "/api/v1/runs?dryRun=true", json=document)
            made = admin.post("/api/v1/runs", json={"document": run_tree("made", "team")})
            assert made.status_code == 200, made.text
            with pytest.raises(TimeoutError):
                trying.result(2)
        tried = trying.result(WAIT_S)
        assert tried.status_code == 200, tried.text


def test_a_dry_run_sees_what_was_acknowledged_before_it(served: Served) -> None:
    with served.client(served.token) as admin:
        for number in range(5):
            document = run_tree(f"n{number}", "team", gpus=1)
            assert admin.post("/api/v1/runs", json={"document": document}).status_code == 200
            tried = admin.post(f"/api/v1/runs/n{number}/cancel?dryRun=true", json={})
            assert tried.status_code == 200, tried.text
            assert tried.json()["events"][0]["seq"] == head(admin) + 1


def test_every_dry_run_is_for_readers_and_has_a_budget() -> None:
    for operation in OPERATIONS.values():
        if operation.effect is Effect.WRITE:
            assert DRY_RUN in operation.takes.__struct_fields__, operation.name
            tried, meant = (common_requests.Write(dry_run=each) for each in (True, False))
            assert CPU_S_MAX[place_of(operation, tried)] == 30, operation.name
            assert place_of(operation, meant) is Place.WRITER, operation.name


def test_a_dry_run_beyond_its_budget_is_given_up(tmp_path: Path) -> None:
    path, clock = waiting_ledger(tmp_path, 1)
    config = ProcessConfig(ledger=str(path), beside=ONLY_A_LEDGER, is_executed=False)
    reader = RemoteReader(config, clock, dict.fromkeys(Place, 0.005))
    trees = tuple(costly(f"m{number}") for number in range(WIDTHS_MAX // STEPS))
    asked = run_operations.SubmitRuns(documents=trees, dry_run=True)
    try:
        with pytest.raises(CommandError, match=r"more than 0\.005 s of CPU") as caught:
            reader.reply(Question(ADMIN, OPERATIONS["submit-runs"], asked))
        assert caught.value.fault == "timed-out"
    finally:
        reader.close()


def test_a_reader_tries_a_stop_as_an_executor_would_carry_it_out() -> None:
    engine = memory_engine(clock=HandClock())
    money = budget("b", "team", envelope("e", 16))
    engine.execute(Apply((Owner(name="team"), *fleet({"A": 16}), money)), actor="test")
    engine.execute(Submit(run("a", 1)), actor="test")
    assert engine.view.leases, "it runs"
    asked = run_operations.EndRun(run="a", dry_run=True)
    question = Question(ADMIN, OPERATIONS["cancel-run"], asked, Form.TREE)
    found = {}
    for is_executed in (False, True):
        config = ReaderConfig(
            reading=lambda: engine.store, clock=HandClock(), is_executed=is_executed
        )
        found[is_executed] = [each["tag"] for each in Reader(config).reply(question).tree["events"]]
    assert "lease-ended/1" in found[False], found
    assert "lease-ended/1" not in found[True], "it has not gone before its executor says so"


def test_a_run_of_many_kinds_of_gpu_is_refused_as_every_decision_would_try_them_all(
    served: Served,
) -> None:
    """In the queue, one such run with 10,000 kinds made each write of others take seconds."""
    tree = run_tree("wide", "team", gpus=1)
    flavors = [f"g{number}" for number in range(10_000)]
    tree["spec"]["resources"] = {"gpuTypes": flavors, "totalGPUs": 1}
    with served.client(token(served, "ann")["secret"]) as user:
        for path, body in (("", {"document": tree}), ("/batch", {"documents": [tree]})):
            said = user.post(f"/api/v1/runs{path}", json=body)
            assert said.status_code == 422, said.text
            assert "spec.resources.gpuTypes: lists 10000 names, over 16" in said.json()["detail"]
        assert user.get("/api/v1/runs").json()["items"] == []
