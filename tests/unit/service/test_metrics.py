"""Counters count what happened, gauges show the present state, and every label is bounded."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import (
    Applied,
    Apply,
    Cancel,
    Command,
    Complete,
    MarkNode,
    Resolve,
    Submit,
)
from quorate.ledger.chain import Head, open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, SECOND_MS
from quorate.model.events import (
    ConflictOutcome,
    ConflictResolved,
    Cut,
    CutStep,
    DrawnToken,
    Event,
    NodeStatus,
    Outcome,
    RunEnded,
    RunRefused,
    RunSubmitted,
    ThresholdCrossed,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import OnQuota, Owner, Pool, Quota
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView
from quorate.operations.table import OPERATIONS
from quorate.service.metrics.metric_table import (
    LABELS,
    METRICS,
    OTHER,
    OUTAGES_MAX,
    TENANTS_MAX,
    Kind,
)
from quorate.service.metrics.registry import Metrics
from quorate.service.metrics.tallies import Tallies
from quorate.sim.seed_trial import Trial
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node, run, world
from quorate.testing.memory_engines import HandClock, memory_engine
from tests.oracles.effort import few_of

Sample = tuple[str, tuple[tuple[str, str], ...]]
HEAD = Head(height=7, seq=9, hash=bytes(32))


def _metrics() -> Metrics:
    return Metrics(version="1.2.3", operations=OPERATIONS)


def _scraped(metrics: Metrics, view: StateView, now_ms: int = NOW_MS) -> dict[Sample, float]:
    """Return every sample of a scrape, parsed like Prometheus."""
    text = metrics.render(metrics.collect(view, now_ms)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _value(samples: dict[Sample, float], name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


class _Service:
    """An engine whose commits are counted as by the service."""

    def __init__(self, *specs: Applied) -> None:
        self.clock = HandClock()
        self.engine: Engine = memory_engine(clock=self.clock)
        self.metrics = _metrics()
        self.metrics.opened(self.engine)
        self.do(Apply(specs))

    def do(self, command: Command) -> None:
        receipt = self.engine.execute(command, actor="test")
        self.metrics.refused(receipt.decision.refusals)
        self.metrics.follow(self.engine)

    def samples(self) -> dict[Sample, float]:
        return _scraped(self.metrics, self.engine.view, self.clock.ms)


def _service(gpus: int = 8, **quota: int) -> _Service:
    return _Service(
        *fleet({"A": gpus}),
        Owner(name="team", quota=Quota(**quota)),
        budget("b", "team", envelope("e", 100)),
    )


# --- The table ---


def test_every_metric_has_our_prefix_a_help_text_and_the_suffix_of_its_kind() -> None:
    for name, metric in METRICS.items():
        assert name.startswith("quorate_"), name
        assert metric.help.endswith("."), name
        assert name.endswith("_total") == (metric.kind is Kind.COUNTER), name
        assert not name.endswith(("_ms", "_milliseconds", "_hours", "_gb")), name
        assert (metric.kind is Kind.HISTOGRAM) == bool(metric.buckets), name
        assert list(metric.buckets) == sorted(set(metric.buckets)), name
    assert {
        "quorate_resolver_invocations_total",
        "quorate_resolver_spares_dropped_total",
        "quorate_resolver_shrinks_total",
        "quorate_resolver_lottery_draws_total",
    } <= METRICS.keys()


def test_every_label_is_on_the_list_and_every_entry_of_the_list_is_used() -> None:
    used = {label for metric in METRICS.values() for label in metric.labels}
    assert used == LABELS.keys()


def test_a_scrape_has_exactly_the_metrics_of_the_table_beside_those_of_the_process() -> None:
    service = _service(nodes_max=4, concurrent_runs_max=1, gpu_ms_budget=9, node_ms_budget=9)
    service.do(Submit(run("first", 8)))
    service.do(Submit(run("second", 8, on_quota=OnQuota.WAIT)))
    with service.metrics.request("rest", "submit-run") as asked:
        asked.answer(200)
    text = service.metrics.render(service.metrics.collect(service.engine.view, service.clock.ms))
    shown = {
        words[2]: words[3]
        for line in text.decode().splitlines()
        if (words := line.split())[:2] == ["#", "TYPE"] and not words[2].endswith("_created")
    }
    ours = {n: kind for n, kind in shown.items() if not n.startswith("quorate_process_")}
    known = {name: str(metric.kind) for name, metric in METRICS.items()}
    del known["quorate_disk_free_bytes"]  # No folder was named.
    assert ours == known


@pytest.mark.heavy
def test_no_label_has_more_values_than_its_bound_however_large_the_world_is() -> None:
    many = 3 * TENANTS_MAX
    quota = Quota(nodes_max=1, concurrent_runs_max=1, gpu_ms_budget=1, node_ms_budget=1)
    tenants = [Owner(name=f"t{n:04d}", quota=quota) for n in range(many)]
    pools = [Pool(name=f"p{n}", selector=(("rack", f"r{n}"),)) for n in range(many)]
    nodes = [node(f"n{n}", 8, flavor=f"F{n}", rack=f"r{n}") for n in range(many)]
    state = world(
        nodes=nodes,
        pools=pools,
        owners=tenants,
        budgets=[budget(f"b-{o.name}", o.name, envelope("e", 8)) for o in tenants],
    )
    metrics = _metrics()
    for number in range(many):
        with metrics.request("rest", f"no-operation-{number}") as asked:
            asked.answer(100 + number)
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    samples = _scraped(metrics, state)
    for name, labels in samples:
        for label, value in labels:
            values[name, label].add(value)
    for (name, label), found in values.items():
        if label != "le":
            assert len(found) <= LABELS[label], (name, label, len(found))
    assert len(values["quorate_tenant_runs", "tenant"]) == TENANTS_MAX + 1
    assert len(samples) < 10_000


# --- What has happened ---


def test_admission_is_timed_from_the_submission_to_the_first_start_only() -> None:
    service = _service()
    service.do(Submit(run("first", 8)))
    service.do(Submit(run("second", 8)))
    service.clock.ms += 90 * SECOND_MS
    service.do(Complete("first"))
    samples = service.samples()
    assert service.engine.view.runs["second"].phase is Phase.RUNNING
    assert _value(samples, "quorate_admission_seconds_count") == 2
    assert _value(samples, "quorate_admission_seconds_sum") == 90
    assert _value(samples, "quorate_runs_submitted_total") == 2
    assert _value(samples, "quorate_runs_ended_total", outcome="Completed") == 1
    assert _value(samples, "quorate_leases_ended_total", reason="End") == 1


def test_refusals_are_counted_at_the_door_and_in_the_queue() -> None:
    service = _service(concurrent_runs_max=1)
    service.do(Submit(run("first", 4)))
    service.do(Submit(run("too-many", 4)))
    service.do(Submit(run("waits", 4, on_quota=OnQuota.WAIT)))
    samples = service.samples()
    code = "max-concurrent-runs"
    assert _value(samples, "quorate_refusals_total", code=code, where="door") == 1
    waiting = "waiting-for-quota"
    assert _value(samples, "quorate_refusals_total", code=waiting, where="queue") == 1
    assert _value(samples, "quorate_refusals_total", code="no-nodes", where="queue") == 0


@pytest.mark.heavy
def test_what_the_resolver_did_is_counted_cut_by_cut() -> None:
    state, metrics = world(), _metrics()
    cuts = (
        Cut(step=CutStep.SPARE, run="a", bundle=0, gpus=2, leases=("a/1",)),
        Cut(step=CutStep.SHRINK, run="b", bundle=2, gpus=2, leases=("b/2",)),
        Cut(step=CutStep.SHRINK, run="b", bundle=1, gpus=2, leases=("b/1",)),
        Cut(step=CutStep.LOTTERY, run="c", bundle=0, gpus=2, leases=("c/0",)),
    )
    draws = (DrawnToken(owner="x", run="c", spared=False), DrawnToken("y", "d", spared=True))
    resolved = ConflictResolved(
        at_ms=NOW_MS,
        actor="lottery",
        conflict="c1",
        outcome=ConflictOutcome.CLEARED,
        preimage="",
        beacon="",
        seed="",
        cuts=cuts,
        draws=draws,
        lost_gpu_ms=1_500,
    )
    crossed = ThresholdCrossed(
        at_ms=NOW_MS, actor="clock", owner="x", percent=80, is_above=True, used_ppm=800_000
    )
    metrics.seen([resolved, crossed], state, HEAD, now_ms=NOW_MS + 250)
    samples = _scraped(metrics, state)
    assert _value(samples, "quorate_resolver_spares_dropped_total") == 1
    assert _value(samples, "quorate_resolver_shrinks_total") == 2
    assert _value(samples, "quorate_resolver_lottery_draws_total") == 2
    assert _value(samples, "quorate_resolver_lost_gpu_seconds_total") == 1.5
    assert _value(samples, "quorate_conflicts_resolved_total", outcome="Cleared") == 1
    assert _value(samples, "quorate_thresholds_crossed_total", percent="80", direction="above") == 1
    assert _value(samples, "quorate_ledger_lag_seconds_sum") == 0.25
    assert _value(samples, "quorate_ledger_height") == 7


@pytest.mark.heavy
def test_calls_of_the_resolver_are_counted_when_they_are_declared() -> None:
    service = _service()
    service.do(Submit(run("first", 8)))
    service.clock.ms += 2 * HOUR_MS
    service.do(Resolve(pool="default", flavor="H100", domains=(), gpus=4))
    assert _value(service.samples(), "quorate_resolver_invocations_total") == 1


# --- The present state ---


@pytest.mark.heavy
def test_the_queue_is_shown_by_reason_with_the_age_of_its_oldest() -> None:
    service = _service()
    service.do(Submit(run("first", 8)))
    service.do(Submit(run("second", 8)))
    service.clock.ms += 60 * SECOND_MS
    service.do(Submit(run("third", 4)))
    service.clock.ms += 60 * SECOND_MS
    code = service.engine.view.runs["second"].refusal
    assert code is not None
    before = service.samples()
    waiting = Counter(
        str(record.refusal.code)
        for record in service.engine.view.runs.values()
        if record.refusal is not None
    )
    for each, count in waiting.items():
        assert _value(before, "quorate_queue_runs", code=each) == count
    assert _value(before, "quorate_queue_oldest_seconds", code=str(code.code)) == 120
    service.do(Cancel("second"))
    service.do(Cancel("third"))
    assert not [name for name, _ in service.samples() if name.startswith("quorate_queue_")]


def test_the_gpus_of_the_fleet_are_used_free_or_withheld() -> None:
    service = _service(gpus=24)
    service.do(Submit(run("first", 4)))
    view = service.engine.view
    taken = next(name for name in view.nodes if name in view.node_leases)
    free = next(name for name in view.nodes if name != taken)
    for name in (taken, free):
        service.do(MarkNode(name, NodeStatus.CORDONED))
    by_state = {
        dict(labels)["state"]: value
        for (name, labels), value in service.samples().items()
        if name == "quorate_gpus"
    }
    assert by_state == {"used": 4, "withheld": 12, "free": 8}
    assert _value(service.samples(), "quorate_nodes", status="Cordoned") == 2
    assert _value(service.samples(), "quorate_nodes", status="Ready") == 1


def test_quota_and_envelope_use_are_shown_beside_their_limits() -> None:
    service = _service(concurrent_runs_max=3, nodes_max=2, gpu_ms_budget=HOUR_MS)
    service.do(Submit(run("first", 8)))
    service.clock.ms += 10 * SECOND_MS
    samples = service.samples()
    assert _value(samples, "quorate_tenant_runs", tenant="team") == 1
    assert _value(samples, "quorate_tenant_runs_limit", tenant="team") == 3
    assert _value(samples, "quorate_tenant_nodes", tenant="team") == 1
    assert _value(samples, "quorate_tenant_nodes_limit", tenant="team") == 2
    assert _value(samples, "quorate_tenant_gpu_seconds", tenant="team") == 80
    assert _value(samples, "quorate_tenant_gpu_seconds_budget", tenant="team") == 3_600
    assert _value(samples, "quorate_envelope_gpus", envelope="b/e", state="active") == 8
    assert _value(samples, "quorate_envelope_gpus_limit", envelope="b/e") == 100
    assert _value(samples, "quorate_envelope_gpu_seconds", envelope="b/e", state="spent") == 80
    assert ("quorate_tenant_node_seconds", (("tenant", "team"),)) not in samples


def test_tenants_beyond_the_bound_are_added_up_even_where_one_is_called_like_that() -> None:
    names = [f"t{n:04d}" for n in range(TENANTS_MAX)] + [OTHER, "zz"]
    owners = [Owner(name=name, quota=Quota(nodes_max=2)) for name in names]
    state, metrics = world(owners=owners), _metrics()
    samples = _scraped(metrics, state)
    assert _value(samples, "quorate_tenant_nodes_limit", tenant=OTHER) == 4
    assert _value(samples, "quorate_tenant_nodes_limit", tenant="t0000") == 2
    limits = [value for (name, _), value in samples.items() if name == "quorate_tenant_nodes_limit"]
    assert sum(limits) == 2 * len(names)
    assert _value(samples, "quorate_tenants") == len(names)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of([4, 1, 7], 1))
def test_the_tallies_are_what_a_walk_over_everything_finds(seed: int) -> None:
    """Over a whole simulated history, block by block, and once more after reopening it."""
    trial = Trial(seed)
    trial.run()
    state, tallies = State(), Tallies()
    stops = 0
    for _, events in open_blocks(trial.store.blocks()):
        apply_all(state, events)
        tallies.seen(events, state)
        _expect_same(tallies, state)
        stops += len(tallies.deadlines_ms)
    assert stops
    afresh = Tallies()
    afresh.read(state)
    _expect_same(afresh, state)


def _expect_same(tallies: Tallies, state: State) -> None:
    waiting: dict[str, list[int]] = defaultdict(list)
    for name in state.pending:
        record = state.runs[name]
        code = "none" if record.refusal is None else str(record.refusal.code)
        waiting[code].append(record.submitted_ms)
    assert tallies.waiting == {code: len(found) for code, found in waiting.items()}
    assert {code: tallies.oldest_ms(code) for code in waiting} == {
        code: min(found) for code, found in waiting.items()
    }
    assert tallies.running == {n for n, r in state.runs.items() if r.phase is Phase.RUNNING}
    assert tallies.deadlines_ms == {
        name: lease.ending.deadline_ms
        for name, lease in state.leases.items()
        if lease.ending is not None
    }


@pytest.mark.heavy
def test_a_queue_that_turns_over_for_ever_leaves_nothing_behind() -> None:
    state, tallies = world(), Tallies()
    refusal = Refusal(code=RefusalCode.NO_NODES)
    for number in range(5_000):
        name = f"r{number}"
        events: list[Event] = [
            RunSubmitted(at_ms=NOW_MS, actor="test", run=run(name, 8)),
            RunRefused(at_ms=NOW_MS, actor="test", run=name, refusal=refusal),
        ]
        if number:
            events.append(
                RunEnded(
                    at_ms=NOW_MS, actor="test", run=f"r{number - 1}", outcome=Outcome.CANCELLED
                )
            )
        apply_all(state, events)
        tallies.seen(events, state)
    assert tallies.waiting == {"no-nodes": 1}
    assert sum(map(len, tallies._heaps.values())) < 1_100


def test_a_ledger_that_is_opened_later_shows_what_stands_and_counts_what_comes() -> None:
    service = _service()
    service.do(Submit(run("first", 8)))
    service.do(Submit(run("second", 8)))
    service.metrics = _metrics()
    service.metrics.opened(service.engine)
    samples = service.samples()
    assert _value(samples, "quorate_running_runs") == 1
    assert sum(v for (name, _), v in samples.items() if name == "quorate_queue_runs") == 1
    assert _value(samples, "quorate_ledger_height") == service.engine.head.height
    assert _value(samples, "quorate_ledger_sequence") == service.engine.head.seq
    assert _value(samples, "quorate_runs_submitted_total") == 0
    service.do(Complete("first"))
    assert _value(service.samples(), "quorate_runs_ended_total", outcome="Completed") == 1


# --- The service itself ---


def test_what_others_recorded_is_counted_when_the_engine_has_it() -> None:
    store = MemoryStore(is_shared=True)
    first = memory_engine(store)
    owners = Apply((Owner(name="t"), budget("t", "t", envelope("all", 8)), *fleet({"A": 8})))
    first.execute(owners, actor="test")
    other = Engine.open(store, HandClock())
    metrics = _metrics()
    metrics.opened(first)
    before = first.head.seq
    other.execute(Submit(run("r", 4, "t")), actor="test")
    # The store has the run, but the state of this engine does not have it yet.
    metrics.follow(first)
    first.follow()
    metrics.follow(first)
    metrics.follow(first)
    events = metrics.registry.get_sample_value("quorate_ledger_events_total")
    assert events == other.head.seq - before


def test_a_request_is_counted_by_what_it_came_to() -> None:
    metrics, state = _metrics(), world()
    with metrics.request("rest", "submit-run") as asked:
        asked.answer(201)
        inside = _scraped(metrics, state)
    assert _value(inside, "quorate_requests_in_flight", surface="rest") == 1
    with pytest.raises(RuntimeError), metrics.request("grpc", "no-such"):
        raise RuntimeError
    samples = _scraped(metrics, state)
    one = {"surface": "rest", "operation": "submit-run"}
    assert _value(samples, "quorate_requests_total", **one, status_class="2xx") == 1
    assert _value(samples, "quorate_request_seconds_count", **one) == 1
    lost = {"surface": "grpc", "operation": OTHER, "status_class": "5xx"}
    assert _value(samples, "quorate_requests_total", **lost) == 1
    assert _value(samples, "quorate_requests_in_flight", surface="rest") == 0
    assert _value(samples, "quorate_requests_in_flight", surface="grpc") == 0


def test_a_request_that_was_timed_elsewhere_is_counted_alike() -> None:
    service = _service()
    service.metrics.answered("rest", "submit-run", 404, seconds=0.02)
    collected = service.metrics.collect(service.engine.view, service.clock.ms)
    text = service.metrics.render(collected).decode()
    labels = 'operation="submit-run",status_class="4xx",surface="rest"'
    assert f"quorate_requests_total{{{labels}}} 1.0" in text
    below = 'le="0.01",operation="submit-run",surface="rest"'
    assert f"quorate_request_seconds_bucket{{{below}}} 0.0" in text
    assert f"quorate_ledger_height {service.engine.head.height}.0" in text


def test_the_service_tells_of_commits_watchers_readiness_and_its_disk(tmp_path: Path) -> None:
    metrics = Metrics(version="1.2.3", operations=OPERATIONS, disk=tmp_path)
    metrics.ready(is_ready=True)
    metrics.committed(commands=3, seconds=0.004)
    metrics.commit_failed()
    metrics.refused([Refusal(code=RefusalCode.INVALID)])
    metrics.watch_dropped()
    with metrics.watch():
        samples = _scraped(metrics, world())
    assert _value(samples, "quorate_ready") == 1
    assert _value(samples, "quorate_commit_commands_sum") == 3
    assert _value(samples, "quorate_commit_seconds_bucket", le="0.005") == 1
    assert _value(samples, "quorate_commit_failures_total") == 1
    assert _value(samples, "quorate_refusals_total", code="invalid", where="door") == 1
    assert _value(samples, "quorate_watchers_dropped_total") == 1
    assert _value(samples, "quorate_watchers") == 1
    assert _value(samples, "quorate_disk_free_bytes") > 0
    assert _value(samples, "quorate_build_info", version="1.2.3") == 1
    assert _value(_scraped(metrics, world()), "quorate_watchers") == 0


def test_a_known_outage_takes_no_room_from_a_new_one() -> None:
    metrics = _metrics()
    old = [f"a{number:03d}" for number in range(OUTAGES_MAX - 1)]
    metrics.outages(old)
    metrics.outages([*old, "new", "newer"])
    text = metrics.render(()).decode()
    families = {each.name: each for each in text_string_to_metric_families(text)}
    found = {sample.labels["of"]: sample.value for sample in families["quorate_outage"].samples}
    assert found == {**dict.fromkeys(old, 1.0), "new": 1.0}
