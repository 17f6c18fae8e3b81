"""The delay of statuses and the costs of runs as custom resources of a real API server.

etcd and the API server run beside the service on this machine; nodes of 8 GPUs and their kubelets
are simulated. Runs are created at fixed instants; a fifth of them have many GPUs. The lag of a
change is the wall time from its event in the ledger until a watch of the resource shows the change
or a later one. Other work on the machine increases the lag. The CPU time of the service and its
requests to the API server are also counted per run, and depend less on other work.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import httpx

from benchmarks.durable import OUT
from benchmarks.figure import Effort, Figure, percentile
from quorate.adapters.kubernetes.kube_api import Change, KubeApi
from quorate.adapters.kubernetes.resource_objects import KINDS, RUN
from quorate.ports.errors import ClusterError
from tests.bounds import until
from tests.kubernetes.drill_world import budget, work
from tests.kubernetes.engines import NoProgramsError, Server, api_server, located_programs
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_nodes import PlayedNodes
from tests.kubernetes.printed import plain_answer
from tests.kubernetes.resources import Resources, installed
from tests.service.program import Program, client, program

SPACE, HOME = "bench-rai", "bench-home"
GPUS = 8
RUNS_PER_S = 5.0
WIDTHS = (1, 2, 4, 8, 32)
WORK_MS = (500, 1_500, 3_000, 6_000)
WITHIN_S = 900.0
PHASES = {"Pending": 0, "Running": 1, "Completed": 2}
"""The phases of a run that is never stopped, in order."""
OF_EVENTS = {"run-submitted": 0, "lease-started": 1, "run-ended": 2}
"""The phase that begins with the first event of each kind."""
_COUNTED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(slots=True)
class Shown:
    """For each run by name, when a watch first showed each phase or a later one."""

    api: KubeApi
    at_s: dict[str, dict[int, float]] = field(default_factory=dict)
    ledger_names: dict[str, str] = field(default_factory=dict)

    def follow(self) -> None:
        """Watch until the client is closed."""
        _, version = self.api.list_all(RUN.all_path)
        try:
            for event in self.api.watch(RUN.all_path, version, for_s=int(WITHIN_S)):
                if event.change is Change.MODIFIED:
                    self._take(event.object, time.time())
        except ClusterError:
            return

    def _take(self, tree: dict[str, Any], now_s: float) -> None:
        status = tree.get("status") or {}
        number = PHASES.get(status.get("phase", ""))
        if number is None:
            return
        name = tree["metadata"]["name"]
        self.ledger_names[name] = status["ledgerName"]
        known = self.at_s.setdefault(name, {})
        for each in range(number + 1):
            known.setdefault(each, now_s)

    @property
    def ended(self) -> int:
        """The number of runs that have completed."""
        return sum(PHASES["Completed"] in each for each in list(self.at_s.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Figures that do not come from the watch; ``facts`` has when phases began in the ledger."""

    nodes: int
    runs: int
    facts: dict[str, dict[int, float]]
    requests: Counter[str]
    cpu_s: float


def measure(effort: Effort) -> list[Figure]:
    """Return the lag of statuses, and the CPU time and requests per run."""
    OUT.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=OUT) as made, ExitStack() as stack:
        folder = Path(made)
        try:
            programs = located_programs(OUT / "engines")
        except NoProgramsError as error:
            print(f"not measured: {error}")
            return []
        server = stack.enter_context(api_server(programs, folder))
        api = installed(server)
        stack.callback(api.close)
        for name in (SPACE, HOME):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            api.apply(f"/api/v1/namespaces/{name}", body)
        nodes, runs = effort.of(200, 20), effort.of(500, 40)
        _make_nodes(api, nodes)
        stack.enter_context(_kubelet(server))
        return _play(server, Resources(api, SPACE), folder, nodes, runs)


def _make_nodes(api: KubeApi, count: int) -> None:
    nodes = PlayedNodes(api)
    for number in range(count):
        place = {"region": "us", "fabric_domain": f"d{number // 25}", "gpu_flavor": "H100"}
        nodes.add(f"node-{number}", gpus=GPUS, **place)


@contextmanager
def _kubelet(server: Server) -> Iterator[None]:
    kubelet = Kubelet(server.api(), SPACE)
    kubelet.start()
    try:
        yield
    finally:
        kubelet.close()


def _play(server: Server, made: Resources, folder: Path, nodes: int, runs: int) -> list[Figure]:
    words = (
        *("--kubernetes-clusters", f"west={server.kubeconfig}"),
        *("--kubernetes-namespace", "bench-{owner}", "--kubernetes-home", HOME),
        *("--kubernetes-resources", "west", "--kubernetes-declare-nodes", "west"),
    )
    made.create("Owner", "rai", {})
    made.create("Budget", "rai", budget(GPUS * nodes))
    pool = {"selector": {"cluster": "west"}, "executor": "kubernetes", "cluster": "west"}
    made.create("Pool", "west", pool)
    shown = Shown(server.api())
    watching = Thread(target=shown.follow, daemon=True)
    with program(folder, *words) as service:
        url, token = service.wait_ready(), service.token
        with client(url, token) as http:
            until(lambda: _node_count(http) == nodes, "the nodes are declared", WITHIN_S)
            watching.start()
            before, cpu_s = _requests(made.api), _cpu_s(service)
            _create(made, runs)
            until(
                lambda: shown.ended == runs,
                "all runs have ended",
                WITHIN_S,
                server=service.process,
                tell=lambda: (shown.ended, service.err[-4_000:]),
            )
            until(lambda: not made.all("GPULease"), "no lease is left", WITHIN_S)
            cpu_s = _cpu_s(service) - cpu_s
            requests = _requests(made.api) - before
            facts = _facts(http)
        service.end()
    shown.api.close()
    watching.join()
    found = Measured(nodes=nodes, runs=runs, facts=facts, requests=requests, cpu_s=cpu_s)
    return _figures(shown, found)


def _create(made: Resources, runs: int) -> None:
    """Create runs at fixed instants."""
    began_s = time.monotonic()
    for number in range(runs):
        time.sleep(max(0.0, began_s + number / RUNS_PER_S - time.monotonic()))
        gpus, ms = WIDTHS[number % len(WIDTHS)], WORK_MS[number % len(WORK_MS)]
        made.create("Run", f"job-{number}", work(gpus, ["ends", str(ms)]))


def _node_count(http: httpx.Client) -> int:
    return len(http.get("/api/v1/nodes?limit=1000").json()["items"])


def _cpu_s(service: Program) -> float:
    """Return the CPU seconds of the service so far, without the processes that answer reads."""
    fields = Path(f"/proc/{service.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _requests(api: KubeApi) -> Counter[str]:
    """Return the server's counts of requests to custom resources and Events, by verb."""
    text = plain_answer(api, "/metrics", accept="text/plain").text
    plurals = {"events", *(kind.plural for kind in KINDS)}
    found: Counter[str] = Counter()
    for labels, count in _COUNTED.findall(text):
        named = dict(_LABEL.findall(labels))
        if named.get("resource") in plurals and named["verb"] not in ("WATCH", "LIST"):
            what = "/".join(filter(None, (named["resource"], named.get("subresource", ""))))
            found[f"{named['verb']} {what}"] += int(float(count))
    return found


def _facts(http: httpx.Client) -> dict[str, dict[int, float]]:
    """Return the instant at which each run reached each phase in the ledger."""
    found: dict[str, dict[int, float]] = {}
    first = 1
    while True:
        page = http.get("/api/v1/ledger/events", params={"limit": 1_000, "from": first}).json()
        for each in page["items"]:
            phase = OF_EVENTS.get(each["tag"].partition("/")[0])
            if phase is not None:
                run = each["run"]["name"] if phase == 0 else each["run"]
                found.setdefault(run, {}).setdefault(phase, each["at_ms"] / 1_000)
        if page["next"] == first:
            return found
        first = page["next"]


def _figures(shown: Shown, found: Measured) -> list[Figure]:
    lags: dict[int, list[float]] = {number: [] for number in PHASES.values()}
    for name, at_s in shown.at_s.items():
        for phase, seen_s in at_s.items():
            lags[phase].append(seen_s - found.facts[shown.ledger_names[name]][phase])
    every = [lag for each in lags.values() for lag in each]
    runs, requests = found.runs, found.requests
    # Leave out the requests of the people who write the resources.
    requests["POST runs"] -= runs
    return [
        Figure(
            name="kubernetes: status lag p99",
            unit="s",
            value=percentile(every, 99),
            better="less",
            target=2.0,
            details={
                "nodes": found.nodes,
                "runs": runs,
                "runs/s": RUNS_PER_S,
                "median, s": percentile(every, 50),
                "most, s": max(every),
                **{
                    f"{name}: p99, s": percentile(lags[number], 99)
                    for name, number in PHASES.items()
                },
                "load": os.getloadavg()[0],
            },
        ),
        Figure(
            name="kubernetes: CPU of the service for a run",
            unit="ms",
            value=1e3 * found.cpu_s / runs,
            better="less",
        ),
        Figure(
            name="kubernetes: requests to custom resources and Events for a run",
            unit="requests",
            value=requests.total() / runs,
            better="less",
            details={name: count / runs for name, count in sorted(requests.items()) if count},
        ),
    ]
