"""Suspended workloads become runs: a ledger and a simulated cluster are compared until they agree.

The simulated cluster stores workloads as trees, applies Quorate's patches, and has a controller
like real ones: it creates pods while a workload is not suspended, and deletes them a little later
when it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.kubernetes.job_kinds import KINDS, at
from quorate.adapters.kubernetes.job_watch import SeenJobs
from quorate.adapters.kubernetes.seen_jobs import MESSAGE_NOTE, RUN_NOTE, seen_job
from quorate.core.commands import Apply, Cancel, MarkNode, Submit
from quorate.model.events import NodeStatus
from quorate.model.specs import Owner, Pool, PoolExecutor
from quorate.model.state.records import Phase
from quorate.ports.executor_port import Order, Report
from quorate.service.cluster_jobs import record_jobs
from quorate.service.job_admission import LATE_MS
from quorate.service.job_runs import JobRules, run_name
from quorate.testing.builders import budget, envelope, node, run
from quorate.testing.memory_engines import HandClock, memory_engine
from tests.oracles.effort import examples

JOB = KINDS[0]
RULES = JobRules(cluster="c", namespace_of=lambda owner: f"quorate-{owner}")
WHOLE = Pool(
    name="whole", selector=(), executor=PoolExecutor.KUBERNETES, cluster="c", whole_nodes=True
)
WATCHED = frozenset({"jobs"})


class Silent:
    """An executor that confirms nothing, like the executor of pods for runs of workloads."""

    def carry_out(self, orders: Sequence[Order], *, term: int = 0) -> None:
        """Do nothing."""

    def resume(self, orders: Sequence[Order], *, term: int = 0, is_whole: bool = True) -> None:
        """Do nothing."""

    def reports(self) -> Sequence[Report]:
        """Return nothing."""
        return ()

    def steps(self, runs: Collection[str]) -> Mapping[str, int]:
        """Return nothing."""
        del runs
        return {}


class World:
    """A ledger with three whole nodes of 8 GPUs, and a cluster."""

    def __init__(self, pool: Pool = WHOLE, nodes: int = 3, clock: HandClock | None = None) -> None:
        self.engine = memory_engine(clock=clock or HandClock())
        self.engine.executor = Silent()
        fleet = [node(f"n{number}") for number in range(nodes)]
        money = budget("b", "rai", envelope("e", 8 * nodes))
        self.engine.execute(
            Apply((pool, *fleet, Owner(name="rai"), Owner(name="core"), money)), actor="ada"
        )
        self.jobs: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, tuple[str, ...]] = {}
        self.names: dict[str, str] = {}
        self.is_slow = False
        self.version = 0

    def create(self, name: str, pods: int = 1, gpus: int = 8, **more: Any) -> str:
        self.version += 1
        uid = f"{self.version:08x}-uid"
        limits = {"nvidia.com/gpu": gpus}
        template = {"spec": {"containers": [{"name": "w", "resources": {"limits": limits}}]}}
        spec = {"suspend": True, "parallelism": pods, "template": template, **more}
        labels = {"quorate.dev/owner": spec.pop("owner", "rai")}
        metadata = {
            "namespace": spec.pop("namespace", "quorate-rai"),
            "name": name,
            "uid": uid,
            "resourceVersion": str(self.version),
            "labels": labels,
            "annotations": {},
        }
        self.jobs[uid] = {"metadata": metadata, "spec": spec, "status": {}}
        self.names[uid] = f"{name}-{uid[:8]}"
        return self.names[uid]

    def change(self, name: str, **spec: Any) -> None:
        """Change a job as a user."""
        self.version += 1
        tree = self.jobs[self.uid(name)]
        tree["spec"] |= spec
        tree["metadata"]["resourceVersion"] = str(self.version)

    def seen(self) -> SeenJobs:
        found = [seen_job(deepcopy(tree), JOB) for tree in self.jobs.values()]
        return SeenJobs({str(job.workload): job for job in found if job is not None}, WATCHED)

    def compare(self) -> bool:
        """Compare once and change the cluster; return whether anything was changed."""
        seen, seq = self.seen(), self.engine.head.seq
        done = record_jobs(self.engine, RULES, seen)
        gone = [str(each) for each in done.unsure if not self.pods.get(each.uid)]
        if gone:
            done = record_jobs(self.engine, RULES, seen, gone)
        assert not done.refused
        for job, patch in done.patches:
            self.patch(job.workload.uid, patch)
        return bool(done.patches) or self.engine.head.seq != seq

    def patch(self, uid: str, patch: dict[str, Any]) -> None:
        tree = self.jobs[uid]
        if patch["metadata"]["resourceVersion"] != tree["metadata"]["resourceVersion"]:
            return
        self.version += 1
        notes = tree["metadata"]["annotations"] | patch["metadata"]["annotations"]
        tree["metadata"]["annotations"] = {k: v for k, v in notes.items() if v is not None}
        tree["spec"] |= patch.get("spec", {})
        tree["metadata"]["resourceVersion"] = str(self.version)

    def control(self) -> None:
        """Do the work of a controller and of kubelets."""
        for uid in list(self.pods):
            if uid not in self.jobs or self.jobs[uid]["spec"]["suspend"]:
                if self.is_slow:
                    continue
                del self.pods[uid]
        for uid, tree in self.jobs.items():
            if not tree["spec"]["suspend"] and not tree["status"] and uid not in self.pods:
                self.pods[uid] = self.pinned(tree)

    def pinned(self, tree: dict[str, Any]) -> tuple[str, ...]:
        path = ("spec", "template", "spec", "affinity", "nodeAffinity")
        required = at(tree, path)["requiredDuringSchedulingIgnoredDuringExecution"]
        return tuple(each["matchFields"][-1]["values"][0] for each in required["nodeSelectorTerms"])

    def end(self, uid: str, kind: str = "Complete") -> None:
        self.version += 1
        self.jobs[uid]["status"] = {"conditions": [{"type": kind, "status": "True"}]}
        self.jobs[uid]["metadata"]["resourceVersion"] = str(self.version)
        self.pods.pop(uid, None)

    def settle(self) -> None:
        """Compare and control until nothing changes any more."""
        for _ in range(30):
            is_news = self.compare()
            self.check()
            self.control()
            self.check()
            if not is_news and not self.compare():
                return
        raise AssertionError("ledger and cluster do not come to agree")

    def check(self) -> None:
        """Check that no node has pods of two workloads, and that pods run only under a lease.

        Pods on a failed node do nothing any more.
        """
        view = self.engine.view
        failed = {n for n, status in view.node_status.items() if status is NodeStatus.FAILED}
        busy: set[str] = set()
        for uid, nodes in self.pods.items():
            found = view.runs[self.names[uid]]
            leased = {n for each in found.leases for n, _ in view.leases[each].fact.slots}
            alive = set(nodes) - failed
            assert alive <= leased, (self.names[uid], nodes, leased)
            assert not alive & busy, self.pods
            busy |= alive

    def phase(self, name: str) -> Phase:
        return self.engine.view.runs[name].phase

    def uid(self, name: str) -> str:
        return next(u for u in self.jobs if name.endswith(u[:8]))

    def is_suspended(self, name: str) -> bool:
        return bool(self.jobs[self.uid(name)]["spec"]["suspend"])

    def note(self, name: str, key: str = MESSAGE_NOTE) -> str:
        return str(self.jobs[self.uid(name)]["metadata"]["annotations"].get(key, ""))


def test_a_job_becomes_a_run_starts_and_completes() -> None:
    world = World()
    name = world.create("train", pods=2, activeDeadlineSeconds=600)
    world.settle()
    assert world.phase(name) is Phase.RUNNING
    assert not world.is_suspended(name)
    assert world.note(name, RUN_NOTE) == name
    assert world.pods[world.uid(name)] == ("n0", "n1")
    spec = world.engine.view.runs[name].spec
    assert (spec.owner, spec.gpus, spec.expected_duration_ms) == ("rai", 16, 600_000)
    world.end(world.uid(name))
    world.settle()
    assert world.phase(name) is Phase.COMPLETED
    assert not world.engine.view.leases


def test_a_job_that_fails_fails_its_run() -> None:
    world = World()
    name = world.create("train")
    world.settle()
    world.end(world.uid(name), "Failed")
    world.settle()
    assert world.phase(name) is Phase.FAILED


def test_a_job_waits_until_there_is_room() -> None:
    world = World(nodes=1)
    first, second = world.create("first"), world.create("second")
    world.settle()
    assert (world.is_suspended(first), world.is_suspended(second)) == (False, True)
    assert f"quorate explain {second}" in world.note(second)
    world.end(world.uid(first))
    world.settle()
    assert not world.is_suspended(second)
    assert world.note(second) == ""


def test_leases_end_only_when_no_pod_is_left() -> None:
    world = World(nodes=1)
    first, second = world.create("first"), world.create("second")
    world.settle()
    world.is_slow = True
    world.engine.execute(Cancel(first), actor="ada")
    world.settle()
    assert world.is_suspended(first)
    assert world.engine.view.runs[first].leases
    assert world.is_suspended(second)
    world.is_slow = False
    world.control()
    world.settle()
    assert world.phase(first) is Phase.CANCELLED
    assert not world.is_suspended(second)


def test_a_deleted_job_cancels_its_run_when_its_pods_are_gone() -> None:
    world = World(nodes=1)
    first, second = world.create("first"), world.create("second")
    world.settle()
    world.is_slow = True
    del world.jobs[world.uid(first)]
    world.settle()
    assert world.is_suspended(second)
    world.is_slow = False
    world.control()
    world.settle()
    assert world.phase(first) is Phase.CANCELLED
    assert not world.is_suspended(second)


def test_a_failed_node_moves_the_job() -> None:
    world = World(nodes=2)
    name = world.create("train")
    world.settle()
    assert world.pods[world.uid(name)] == ("n0",)
    world.engine.execute(MarkNode("n0", NodeStatus.FAILED), actor="ada")
    world.settle()
    assert world.pods[world.uid(name)] == ("n1",)
    assert world.phase(name) is Phase.RUNNING


def test_a_moved_job_starts_again_only_when_its_controller_has_suspended_it() -> None:
    world = World(nodes=2)
    name = world.create("train")
    world.settle()
    tree = world.jobs[world.uid(name)]
    tree["status"] = {"conditions": [{"type": "Suspended", "status": "False"}]}
    world.engine.execute(MarkNode("n0", NodeStatus.FAILED), actor="ada")
    for _ in range(4):
        world.compare()
    assert world.is_suspended(name)
    tree["status"] = {"conditions": [{"type": "Suspended", "status": "True"}]}
    world.pods.clear()
    world.compare()
    assert not world.is_suspended(name)
    assert world.pinned(tree) == ("n1",)


def test_a_job_of_a_kind_that_is_not_watched_is_left_alone() -> None:
    world = World()
    name = world.create("train")
    world.settle()
    record_jobs(world.engine, RULES, SeenJobs({}, frozenset()))
    assert world.phase(name) is Phase.RUNNING


def test_what_keeps_a_job_from_being_a_run_is_said_in_it() -> None:
    world = World()
    words = {
        world.create("a", suspend=False): "create it with suspend: true",
        world.create("b", owner="nobody"): "there is no owner 'nobody'",
        world.create("c", owner="core"): "create it there",
        world.create("d", gpus=0): "ask for no GPUs",
        world.create("e", pods=100): "waits; why: quorate explain",
    }
    world.compare()
    assert not world.compare()
    for name, said in words.items():
        assert said in world.note(name), name
    assert world.engine.view.runs.get(next(iter(words))) is None


def test_jobs_on_shared_nodes_work_where_one_node_has_all_their_pods() -> None:
    shared = Pool(name="shared", selector=(), executor=PoolExecutor.KUBERNETES, cluster="c")
    world = World(shared)
    small = world.create("small", pods=4, gpus=1)
    wide = world.create("wide", pods=2, gpus=8)
    world.compare()
    world.compare()
    assert not world.is_suspended(small)
    assert world.phase(wide) is Phase.FAILED
    assert "wholeNodes: true" in world.engine.view.runs[wide].note


def test_a_run_of_another_kind_with_the_name_of_a_workload_is_not_touched() -> None:
    world = World()
    name = world.create("train")
    world.engine.execute(Submit(run(name, 8, "rai", pool="whole")), actor="eve")
    world.settle()
    assert "is used by another run" in world.note(name)
    assert world.is_suspended(name)


def test_a_run_that_names_the_workload_of_another_run_is_cancelled() -> None:
    world = World()
    name = world.create("train")
    world.settle()
    own = world.engine.view.runs[name].spec
    world.engine.execute(
        Submit(run("forged", 8, "rai", pool="whole", workload=own.workload)), actor="eve"
    )
    world.settle()
    assert world.phase("forged") is Phase.CANCELLED
    assert world.phase(name) is Phase.RUNNING
    assert list(world.engine.view.runs["forged"].leases) == []


def forged(world: World, name: str) -> None:
    """Let the owner core submit a run that names a workload of rai."""
    workload = f"job.batch/quorate-rai/{name[:-9]}@{world.uid(name)}"
    spec = run(name, 8, "core", pool="whole", workload=workload)
    world.engine.execute(Submit(spec), actor="core/eve")


def test_the_run_of_another_owner_starts_no_workload() -> None:
    world = World()
    world.engine.execute(Apply((budget("c", "core", envelope("c", 24)),)), actor="ada")
    name = world.create("victim")
    world.jobs[world.uid(name)]["metadata"]["labels"]["quorate.dev/pool"] = "typo"
    world.compare()
    forged(world, name)
    world.settle()
    assert world.is_suspended(name)
    assert "is used by another run" in world.note(name)
    assert world.phase(name) is Phase.CANCELLED
    assert not world.engine.view.leases
    assert "in namespace quorate-rai" in world.engine.view.runs[name].note


def test_the_run_of_another_owner_stops_no_workload() -> None:
    world = World()
    name = world.create("victim", owner="some-queue", suspend=False)
    world.compare()
    forged(world, name)
    for _ in range(4):
        world.compare()
    assert not world.is_suspended(name)
    assert world.phase(name) is Phase.CANCELLED


def template(gpus: int | str = 8, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus}
    return {"spec": {"containers": [{"name": "w", "resources": {"limits": limits}}], **spec}}


@pytest.mark.parametrize(
    "spec",
    [
        {"activeDeadlineSeconds": 2**55},
        {"template": template(terminationGracePeriodSeconds=2**60)},
        {"template": template(terminationGracePeriodSeconds=-5)},
        {"template": template(terminationGracePeriodSeconds=31_536_000)},
        {"template": template("9" * 5000)},
        {"pods": 2**31 - 1},
        {"manualSelector": True},
    ],
)
def test_a_wild_job_keeps_no_other_job_waiting(spec: dict[str, Any]) -> None:
    world = World()
    wild, honest = world.create("wild", **spec), world.create("honest")
    world.settle()
    assert world.phase(honest) is Phase.RUNNING
    assert world.engine.view.runs.get(wild) is None
    assert world.note(wild)
    assert len(world.note(wild)) < 300


def test_the_bug_of_one_job_is_not_that_of_others() -> None:
    world = World()
    wild, broken = world.create("wild"), world.create("broken", owner="core")
    honest = world.create("honest")
    # As if its deadline had not been checked: the ledger cannot store it.
    jobs = {
        key: replace(job, deadline_s=2**55) if run_name(job.workload) == wild else job
        for key, job in world.seen().jobs.items()
    }

    def namespace_of(owner: str) -> str:
        return {"rai": "quorate-rai"}[owner]

    rules = JobRules(cluster="c", namespace_of=namespace_of)
    done = record_jobs(world.engine, rules, SeenJobs(jobs, WATCHED))
    assert world.phase(honest) is Phase.RUNNING
    assert [run_name(jobs[key].workload) for key in done.broken] == [broken]
    (said,) = [patch for job, patch in done.patches if run_name(job.workload) == wild]
    assert "a bug keeps the Job waiting" in said["metadata"]["annotations"][MESSAGE_NOTE]


@pytest.mark.parametrize("pods", [2**31 - 1, 2, 0])
def test_a_job_that_was_resized_before_its_start_fails(pods: int) -> None:
    world = World()
    name = world.create("train")
    record_jobs(world.engine, RULES, world.seen())
    assert world.phase(name) is Phase.RUNNING
    world.change(name, parallelism=pods)
    world.settle()
    assert world.phase(name) is Phase.FAILED
    assert "GPUs" in world.engine.view.runs[name].note
    assert world.is_suspended(name)


def test_a_job_that_grows_while_it_works_is_suspended_and_fails_without_pods() -> None:
    shared = Pool(name="shared", selector=(), executor=PoolExecutor.KUBERNETES, cluster="c")
    world = World(shared)
    name = world.create("train", gpus=1)
    world.settle()
    world.is_slow = True
    world.change(name, parallelism=8)
    world.settle()
    assert world.is_suspended(name)
    assert "the workload asks for 8 GPUs, but its run" in world.note(name)
    assert world.phase(name) is Phase.RUNNING
    world.is_slow = False
    world.control()
    world.settle()
    assert world.phase(name) is Phase.FAILED
    assert not world.engine.view.leases


def test_a_job_whose_template_names_other_nodes_is_suspended() -> None:
    world = World()
    name = world.create("train")
    world.settle()
    world.change(name, template=template(), suspend=False)
    world.compare()
    assert world.is_suspended(name)
    assert "the pod template must name exactly the nodes of the run: n0" in world.note(name)


def test_pods_that_outlive_the_deadline_of_a_stop_are_killed() -> None:
    clock = HandClock()
    world = World(clock=clock)
    name = world.create("train")
    world.settle()
    world.is_slow = True
    world.engine.execute(Cancel(name), actor="ada")
    world.settle()
    seen = world.seen()
    clock.ms += 30_000 + LATE_MS
    assert record_jobs(world.engine, RULES, seen).overdue == []
    clock.ms += 1
    overdue = record_jobs(world.engine, RULES, seen).overdue
    assert [each.uid for each in overdue] == [world.uid(name)]


WORDS = ("create", "create", "cancel", "cancel", "end", "fail", "delete", "node", "slow", "poke")
ACTS = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 5)), min_size=4, max_size=16)


@examples(0.5)
@given(acts=ACTS)
def test_no_node_is_used_twice_and_all_ends_whatever_happens(acts: list[tuple[str, int]]) -> None:
    world = World()
    for what, number in acts:
        _act(world, what, number)
        for _ in range(3):
            world.compare()
            world.check()
            world.control()
            world.check()
        if what not in ("slow", "node"):
            world.is_slow = False
    world.is_slow = False
    for _ in range(len(world.jobs) + 1):
        world.control()
        world.settle()
        for uid in list(world.pods):
            if uid in world.jobs and not world.jobs[uid]["status"]:
                world.end(uid)
    world.settle()
    view = world.engine.view
    assert not view.leases
    assert not view.pending


def _act(world: World, what: str, number: int) -> None:
    uids = sorted(world.jobs)
    uid = uids[number % len(uids)] if uids else None
    if what == "create":
        world.create(f"job{number}", pods=1 + number % 3)
    elif what == "node":
        # A replaced machine comes back, and its pods are gone.
        node_name = f"n{number % 3}"
        world.engine.execute(MarkNode(node_name, NodeStatus.FAILED), actor="ada")
        world.is_slow = number > 2
        world.compare()
        world.check()
        left = {u: tuple(n for n in has if n != node_name) for u, has in world.pods.items()}
        world.pods = {u: nodes for u, nodes in left.items() if nodes}
        world.engine.execute(MarkNode(node_name, NodeStatus.READY), actor="ada")
    elif what == "slow":
        world.is_slow = True
        if uid is not None:
            world.engine.execute(Cancel(world.names[uid]), actor="ada")
    elif uid is not None and what == "cancel":
        world.engine.execute(Cancel(world.names[uid]), actor="ada")
    elif uid is not None and what in ("end", "fail") and uid in world.pods:
        world.end(uid, "Complete" if what == "end" else "Failed")
    elif uid is not None and what == "delete":
        del world.jobs[uid]
    elif uid is not None and what == "poke" and not world.jobs[uid]["status"]:
        # A user suspends it by hand.
        world.version += 1
        world.jobs[uid]["spec"]["suspend"] = True
        world.jobs[uid]["metadata"]["resourceVersion"] = str(world.version)
