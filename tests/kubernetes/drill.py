"""A drill: many runs as custom resources while everything around them fails, and its result.

A seed determines the runs and the order of the faults: the service or the API server is killed, the
connection between both is cut for a moment or for long while etcd is compacted, a node is deleted,
runs are deleted while they wait or work, or while no service is running. At the end nothing may be
lost, duplicated or left behind; ``problems`` lists what is.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from quorate.adapters.kubernetes.resource_objects import RUN
from tests.bounds import WAIT_S, until
from tests.kubernetes.cut_line import CutLine, line_to
from tests.kubernetes.drill_world import BYSTANDERS, GPUS, HOME, SPACE, budget, clear, prepare, work
from tests.kubernetes.engines import MortalServer, Server
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.planted import code_with
from tests.kubernetes.played_nodes import PlayedNodes
from tests.kubernetes.resources import Resources, installed
from tests.kubernetes.work_book import leased, work_faults
from tests.service.program import Program, client, reserved_port

WIDTHS: Final = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How often each fault occurs, in an order that follows from ``seed``.

    The service has the planted bug ``bug``. ``refusals`` is the number of failed connections of the
    service during a long cut. At the end the drill waits up to ``within_s`` for the remaining runs.
    Runs request one of ``widths``.
    """

    seed: int
    nodes: int
    runs: int
    faults: Mapping[str, int]
    refusals: int = 20
    within_s: float = 2 * WAIT_S
    bug: str = ""
    widths: tuple[int, ...] = WIDTHS


@dataclass(slots=True)
class Drill:
    """A cluster with nodes, kubelets and other pods, a service, and the connection between both."""

    plan: Plan
    server: Server
    mortal: MortalServer | None
    made: Resources
    nodes: PlayedNodes
    kubelet: Kubelet
    line: CutLine
    start: Callable[[], None]
    service: list[Program]
    chance: random.Random
    token_file: Path
    anchors: tuple[str, ...] = ("anchor-0", "anchor-1")
    """Runs that work all the time and are deleted at the end."""
    lost: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    gpus: int = 0
    staying: int = 0
    """The GPUs of runs that work until they are deleted, without the anchors."""

    def play(self) -> None:
        """Create runs, and carry out all faults."""
        for name in self.anchors:
            self.made.create("Run", name, work(GPUS, ["stays"]))
        self._find_anchors()
        order = [name for name, count in self.plan.faults.items() for _ in range(count)]
        self.chance.shuffle(order)
        share = -(-self.plan.runs // (len(order) + 1))
        for fault in order:
            self._create(share)
            _FAULTS[fault](self)
        self._create(self.plan.runs)
        self._set_budget()
        self._find_anchors()
        for name in (*self.dropped, *self.anchors):
            self.made.delete("Run", name)

    def _find_anchors(self) -> None:
        """Record the anchors that do not work although nothing has ended them."""
        for name in self.anchors:
            try:
                until(lambda name=name: self._works(name), f"{name} works", self.plan.within_s)  # type: ignore[misc]
            except AssertionError:
                self.lost.append(f"{name} does not work: {self.made.get('Run', name)}")

    def _works(self, name: str) -> bool:
        status = self.made.status("Run", name)
        return status.get("phase") == "Running" and bool(self.kubelet.at_work(status["ledgerName"]))

    def _create(self, count: int) -> None:
        """Create runs; at most a fifth of them work until they are deleted."""
        left = self.plan.runs - len(self.kept) - len(self.dropped)
        for _ in range(max(0, min(count, left))):
            number = len(self.kept) + len(self.dropped)  # Names are not used again.
            width = self.chance.choice(self.plan.widths)
            is_dropped = number % 5 == 3 and self.staying + width <= self._room()
            self.staying += width if is_dropped else 0
            name = f"job-{number}"
            (self.dropped if is_dropped else self.kept).add(name)
            ms = self.chance.choice((100, 400, 1_500))
            command = ["stays"] if is_dropped else ["ends", str(ms)]
            self.made.create("Run", name, work(width, command))

    def _room(self) -> int:
        """Return how many GPUs runs may have that work until they are deleted.

        The rest is enough for the widest run that ends and for one run to delete, on the nodes that
        are never deleted. Otherwise runs might wait until the end of the drill.
        """
        nodes = self.plan.nodes - self.plan.faults.get("node deleted", 0) - len(self.anchors)
        return GPUS * nodes - max(self.plan.widths) - 1

    def _set_budget(self) -> None:
        """Change the budget, so that the ledger has to record the new generation."""
        self.gpus += 1
        body = {"spec": budget(GPUS * self.plan.nodes + self.gpus)}
        self.made.api.merge(self.made.path("Budget", "rai"), body)

    # --- Faults ---

    def kill_service(self) -> None:
        """Kill the service, and start a new one."""
        self.service.pop().end(signal.SIGKILL)
        self.start()

    def kill_api_server(self) -> None:
        """Kill the API server, and restart it when the service has noticed this."""
        assert self.mortal is not None, "the plan has a server that may be killed"
        refused = self.line.refused
        self.mortal.kill()
        until(lambda: self.line.refused > refused, "the service misses the API server")
        self.mortal.start()

    def cut_watches(self) -> None:
        """Cut all connections, and accept new ones at once."""
        self.line.cut()
        self.line.mend()

    def long_outage(self) -> None:
        """Cut the connection until the service has retried often; meanwhile users make changes."""
        self.line.cut()
        refused = self.line.refused
        self._create(2)
        for name in sorted(self.dropped)[:2]:
            self.made.delete("Run", name)
        self._set_budget()
        self.server.compact(self.made.api.list_all(RUN.all_path)[1])
        until(
            lambda: self.line.refused >= refused + self.plan.refusals,
            "the service tries to connect",
            within_s=10 * WAIT_S,
        )
        self.line.mend()

    def delete_running(self) -> None:
        """Delete a run that works."""
        name = f"short-{len(self.dropped)}"
        self.dropped.add(name)
        self.made.create("Run", name, work(1, ["stays"]))
        until(
            lambda: self._works(name),
            f"{name} works",
            self.plan.within_s,
            tell=lambda: self.made.get("Run", name),
        )
        self.made.delete("Run", name)

    def delete_node(self) -> None:
        """Delete a node with work for ever: its kubelet confirms nothing any more."""
        there = {f"drill-{number}" for number in range(1, self.plan.nodes)}
        left = there - self.kubelet.failed_nodes
        name = min(left & set(self.kubelet.busy_nodes()) or left)
        self.kubelet.failed_nodes.add(name)
        self.nodes.remove(name)

    # --- Results ---

    def problems(self) -> list[str]:
        """Return what was lost, duplicated or left behind."""
        try:
            until(self._is_over, "all is over", within_s=self.plan.within_s, every_s=0.2)
        except AssertionError:
            self.lost.append(f"not over: {self._left()}")
        return self.lost + self._judge()

    def _left(self) -> dict[str, object]:
        phases = {
            each["metadata"]["name"]: each.get("status", {}).get("phase")
            for each in self.made.all("Run")
        }
        return {
            "kept": {
                name: phases.get(name) for name in self.kept if phases.get(name) != "Completed"
            },
            "dropped": sorted({*self.dropped, *self.anchors} & phases.keys()),
            "pods": [each["metadata"]["name"] for each in self._pods()],
            "services": len(self.made.api.list_all(f"/api/v1/namespaces/{SPACE}/services")[0]),
            "objects": len(self.made.all("GPULease")) + len(self.made.all("Reservation")),
        }

    def _is_over(self) -> bool:
        left = self._left()
        budget = self.made.get("Budget", "rai") or {}
        is_taken = (budget.get("status") or {}).get("observedGeneration", 0) >= budget["metadata"][
            "generation"
        ]
        return is_taken and not any(left.values())

    def _pods(self) -> list[dict[str, Any]]:
        trees = self.made.api.list_all(f"/api/v1/namespaces/{SPACE}/pods")[0]
        return [each for each in trees if each["metadata"]["name"] not in BYSTANDERS]

    def _judge(self) -> list[str]:
        found: list[str] = []
        service = self.service[-1]
        if service.process.poll() is not None:
            return [f"the service has ended: {service.err[-2_000:]}"]
        with client(service.wait_ready(), self.token_file.read_text("utf-8").strip()) as http:
            events = _events(http)
            runs = http.get("/api/v1/runs?limit=1000").json()["items"]
            budget = http.get("/api/v1/budgets/rai").json()
        names = Counter(
            each["run"]["name"].rpartition("-")[0]
            for each in events
            if each["tag"].startswith("run-submitted")
        )
        found += [
            f"{name} was submitted {count} times" for name, count in names.items() if count > 1
        ]
        phases = {
            each["metadata"]["name"].rpartition("-")[0]: each["status"]["phase"] for each in runs
        }
        found += [
            f"{name} is {phases.get(name)} in the ledger"
            for name in sorted(self.kept)
            if phases.get(name) != "Completed"
        ]
        found += [
            f"{name} was deleted and is {phase} in the ledger"
            for name, phase in phases.items()
            if name in {*self.dropped, *self.anchors} and phase != "Cancelled"
        ]
        wanted = GPUS * self.plan.nodes + self.gpus
        if budget["spec"]["envelopes"][0]["concurrency"] != wanted:
            found.append(f"the budget in the ledger is not that of its resource: {wanted}")
        there = {
            each["metadata"]["name"]
            for each in self.made.api.list_all(f"/api/v1/namespaces/{SPACE}/pods")[0]
        }
        found += [f"{name}, a pod of others, is gone" for name in BYSTANDERS if name not in there]
        return found + work_faults(self.kubelet.worked(), leased(events))


_FAULTS: Final[Mapping[str, Callable[[Drill], None]]] = {
    "service killed": Drill.kill_service,
    "API server killed": Drill.kill_api_server,
    "watches cut": Drill.cut_watches,
    "long outage": Drill.long_outage,
    "run deleted while it works": Drill.delete_running,
    "node deleted": Drill.delete_node,
}


@contextmanager
def drill(
    plan: Plan, server: Server, folder: Path, mortal: MortalServer | None = None
) -> Iterator[Drill]:
    """Yield a drill on ``server`` with a running service; end everything with the block."""
    services: list[Program] = []
    token_file = folder / "admin.token"
    with ExitStack() as stack:
        api = installed(server)
        stack.callback(api.close)
        made = Resources(api, SPACE)
        nodes = PlayedNodes(api)
        stack.callback(nodes.remove_all)
        kubelet = Kubelet(server.api(), SPACE)
        stack.callback(kubelet.close)
        stack.callback(clear, made)
        line, config = line_to(server, folder)
        stack.callback(line.close)
        port = stack.enter_context(reserved_port())

        def start() -> None:
            found = Program(
                folder,
                *("--listen", f"127.0.0.1:{port}"),
                *("--kubernetes-clusters", f"west={config}"),
                *("--kubernetes-namespace", "drill-{owner}", "--kubernetes-home", HOME),
                *("--kubernetes-resources", "west", "--kubernetes-declare-nodes", "west"),
                *("--token-file", str(token_file)),
                code=code_with(plan.bug),
            )
            stack.callback(found.clear)
            services.append(found)
            found.wait_ready()

        prepare(made, nodes, plan.nodes)
        kubelet.start()
        start()
        yield Drill(
            plan=plan,
            server=server,
            mortal=mortal,
            made=made,
            nodes=nodes,
            kubelet=kubelet,
            line=line,
            start=start,
            service=services,
            chance=random.Random(plan.seed),
            token_file=token_file,
        )


def _events(http: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    first = 1
    while True:
        page = http.get("/api/v1/ledger/events", params={"limit": 1_000, "from": first}).json()
        found += page["items"]
        if page["next"] == first:
            return found
        first = page["next"]
