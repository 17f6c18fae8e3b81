"""A training job through all kinds of events, checked by its log, its loss and the ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from quorate.adapters.executors.logs_local import LocalLogs
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.signing import file_signer
from quorate.ledger.chain import open_blocks
from quorate.model.events import (
    EndReason,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    Role,
    RunRequeued,
)
from quorate.service.daemon import Extras
from tests.bounds import until
from tests.executor import toy_train
from tests.executor.room import PYTHON, sweep
from tests.service.serving import LOCAL, Served, new_ledger, serving
from tests.service.worlds import run_tree

TRAIN = "train"
T = TypeVar("T")
Place = frozenset[tuple[str, int]]


@dataclass
class JumpingClock:
    """The clock of the machine, which a test can set forward: notices take at least a minute."""

    ahead_ms: int = 0

    def now_ms(self) -> int:
        """Return the time."""
        return int(time.time() * 1_000) + self.ahead_ms


def documents() -> list[dict[str, Any]]:
    """Return four nodes of two GPUs, two owners with money, and a pool with short notices."""

    def document(kind: str, name: str, spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
        metadata = {"name": name, **meta}
        return {
            "apiVersion": "quorate.dev/v1",
            "kind": kind,
            "metadata": metadata,
            "spec": spec,
        }

    labels = {"region": "r", "cluster": "c", "fabric.domain": "A"}
    window = {"start": "2020-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z"}
    pool = {"reservationNotice": "1m", "minRuntime": "1m", "disruptionRate": 1}
    found = [document("Pool", "default", pool)]
    for number in range(1, 5):
        spec = {"flavor": "H100", "gpus": 2}
        found.append(document("Node", f"n{number}", spec, labels=labels))
    for name in ("ours", "theirs"):
        envelope = {"name": "e", "flavor": "H100", "selector": {"region": "r"}} | window
        money = {"owner": name, "envelopes": [envelope | {"concurrency": 8, "maxGPUHours": 9_000}]}
        found += [document("Owner", name, {}), document("Budget", name, money)]
    return found


@dataclass
class Stage:
    """A service with a training job, and requests about it."""

    served: Served
    client: httpx.Client
    ledger: Path
    clock: JumpingClock
    goal: Path

    def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to a request that must not be refused."""
        found = self.client.post(f"/api/v1/{path}", json=body or {})
        assert found.status_code == 200, found.text
        answer: dict[str, Any] = found.json()
        return answer

    def submit(self, name: str, owner: str, gpus: int, command: list[str], **more: Any) -> None:
        """Submit a run."""
        runtime = {"expectedDuration": "10h", "checkpoint": "5m"} | more.pop("runtime", {})
        document = run_tree(name, owner, gpus, command=command, runtime=runtime, **more)
        self.post("runs", {"document": document})

    def jump(self, seconds: float) -> None:
        """Set the clock forward, and wake all threads that wait for it."""
        self.clock.ahead_ms += round(seconds * 1_000)
        self.post("tick")

    def phase(self, name: str) -> str:
        """Return the phase of a run."""
        return str(self.client.get(f"/api/v1/runs/{name}").json()["status"]["phase"])

    def until(self, look: Callable[[], T], what: str) -> T:
        """Return the result of ``look`` as soon as it is true."""
        return until(look, what, tell=self._tell)

    def _tell(self) -> str:
        run = self.client.get(f"/api/v1/runs/{TRAIN}").text
        return "\n".join([run, *self.lines()])

    # --- The output of the job ---

    def lines(self) -> list[str]:
        """Return the output of the job and its keeper."""
        found = LocalLogs(self.work).read(TRAIN, first=0, limit=10_000)
        return [] if found is None else [line.text for line in found.lines]

    @property
    def work(self) -> Path:
        """The folder of the executor."""
        return Path(f"{self.ledger}.work")

    def steps(self) -> list[tuple[int, int, float]]:
        """Return (generation, step, loss) of each step that rank 0 has reported."""
        path = self.work / "runs" / TRAIN / "steps" / "rank-0.jsonl"
        if not path.exists():
            return []
        # The job may not have finished its last line.
        lines = [line for line in path.read_text().splitlines(keepends=True) if line[-1] == "\n"]
        found = [json.loads(line) for line in lines]
        return [(each["generation"], each["step"], each["figures"]["loss"]) for each in found]

    def gets_on(self, generation: int, *, size: int) -> None:
        """Wait until the processes of a generation have done a dozen steps."""
        begun = f"generation {generation} of {size} from step"
        self.until(lambda: any(begun in line for line in self.lines()), begun)

        def steps() -> bool:
            return sum(1 for each, _, _ in self.steps() if each == generation) > 12

        self.until(steps, f"generation {generation} gets on")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Return a service with an empty fleet."""
    ledger, clock = new_ledger(tmp_path), JumpingClock()
    extras = Extras(signer=file_signer(ledger), clock=clock)
    try:
        with (
            serving(ledger, LOCAL, extras) as served,
            served.client(served.token) as client,
        ):
            found = Stage(served, client, ledger, clock, tmp_path / "goal")
            found.post("apply", {"documents": documents()})
            yield found
    finally:
        sweep(Path(f"{ledger}.work"))


def test_a_training_job_goes_on_from_its_checkpoint_through_everything(stage: Stage) -> None:
    tell_story(stage)
    check_steps(stage)
    check_ledger(stage)


def tell_story(stage: Stage) -> None:
    """Let all events happen to the job."""
    stage.submit("blocker", "theirs", 4, ["sleep", "1000"])
    stage.submit(
        TRAIN,
        "ours",
        4,
        [PYTHON, toy_train.__file__, str(stage.goal)],
        malleable={"minTotalGPUs": 2, "maxTotalGPUs": 4, "stepGPUs": 2},
        locality={"groupGPUs": 2},
        sparesPerGroup=2,
    )
    stage.gets_on(1, size=2)

    stage.post("runs/blocker/cancel")  # GPUs become free: it grows.
    stage.gets_on(2, size=4)

    stage.post(f"runs/{TRAIN}/shrink", {"gpus": 2})
    stage.gets_on(3, size=2)

    lost = only_node(stage)
    stage.post(f"nodes/{lost}/fail", {"note": "power supply"})  # Its spare replaces the lost node.
    stage.gets_on(4, size=2)
    assert only_node(stage) != lost

    stage.jump(120)  # A run that has only just started cannot be drawn.
    stage.submit("rival", "theirs", 6, ["sleep", "0.5"], runtime={"expectedDuration": "1h"})
    assert stage.phase("rival") == "Pending"
    stage.jump(61)  # The notice is over.
    stage.until(lambda: stage.phase("rival") in ("Running", "Completed"), "the rival starts")
    stage.until(lambda: stage.phase("rival") == "Completed", "the rival ends")
    stage.gets_on(5, size=2)

    written = stage.goal.with_suffix(".new")  # The job may read it at any time.
    written.write_text(str(stage.steps()[-1][1] + 20))
    written.replace(stage.goal)
    stage.until(lambda: stage.phase(TRAIN) == "Completed", "it finishes")


def only_node(stage: Stage) -> str:
    """Return the node on which the job works."""
    (node,) = {node for node, _ in places(stage)[-1]}
    return node


def check_steps(stage: Stage) -> None:
    """Check that each generation continues from the last checkpoint, on the same loss curve."""
    found = stage.steps()
    weights, curve = (0.0, 0.0), {}
    for step in range(1, max(step for _, step, _ in found) + 1):
        weights, curve[step] = toy_train.stepped(
            weights, [toy_train.gradient(weights, toy_train.POINTS)]
        )
    assert [generation for generation, _, _ in found] == sorted(each[0] for each in found)
    by_generation: dict[int, list[tuple[int, float]]] = {}
    for generation, step, loss in found:
        by_generation.setdefault(generation, []).append((step, loss))
    assert list(by_generation) == [1, 2, 3, 4, 5]
    last = 0
    for generation, steps in by_generation.items():
        numbers = [step for step, _ in steps]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        # No step is missing; only steps after the last checkpoint are repeated.
        is_abrupt = generation == 4
        assert last - toy_train.EVERY * is_abrupt < numbers[0] <= last + 1
        assert is_abrupt or numbers[0] == last + 1
        last = numbers[-1]
        for step, loss in steps:
            assert loss == pytest.approx(curve[step], rel=1e-9)
    assert f"done at step {last}" in stage.lines()


def places(stage: Stage) -> list[Place]:
    """Return the slots on which the job worked, one set after another, from the ledger.

    Slots of a lease that was ordered to stop are left out, because the work continues without them.
    """
    with SqliteStore.read(stage.ledger) as store:
        found: list[Place] = []
        now: dict[str, Place] = {}
        for _, events in open_blocks(store.blocks()):
            for event in events:
                match event:
                    case LeaseStarted(run="train") if event.role is not Role.SPARE:
                        now[event.lease] = frozenset(
                            (node, gpu)
                            for node, mask in event.slots
                            for gpu in range(8)
                            if mask >> gpu & 1
                        )
                    case LeaseEnding() | LeaseEnded():
                        now.pop(event.lease, None)
                    case _:
                        pass
            whole: Place = frozenset(slot for each in now.values() for slot in each)
            if whole and (not found or found[-1] != whole):
                found.append(whole)
        return found


def check_ledger(stage: Stage) -> None:
    """Check that the ledger has the same sequence of world sizes as the job's log."""
    told = places(stage)
    assert [len(each) for each in told] == [2, 4, 2, 2, 2]
    text = "\n".join(stage.lines())
    for number, (place, block) in enumerate(
        zip(told, text.split("quorate: start ")[1:], strict=True), start=1
    ):
        assert block.startswith(f"{number}: {len(place)} processes on {len(place)} GPUs")
        nodes = sorted(node for node, _ in place)
        size = len(place)
        ranks = [line.split() for line in block.splitlines() if line.startswith("rank ")]
        assert sorted(words[5] for words in ranks) == nodes
        assert {words[3] for words in ranks} == {str(size)}
    with SqliteStore.read(stage.ledger) as store:
        events = [event for _, some in open_blocks(store.blocks()) for event in some]
    reasons = [
        event.reason
        for event in events
        if isinstance(event, LeaseEnded) and event.lease.startswith(f"{TRAIN}/")
    ]
    assert {EndReason.SHRINK, EndReason.RANDOM_PREEMPT, EndReason.END} <= set(reasons)
    assert reasons[-1] is EndReason.END
    requeued = [event.run for event in events if isinstance(event, RunRequeued)]
    assert requeued == [TRAIN]
