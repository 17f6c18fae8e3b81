"""The cost of the dashboard in the browser and in the service, with a large fleet and queue.

10,000 nodes are full and 50,000 runs wait. The first view of a page ends when the page shows its
subject. Its figure is the CPU time of the service and of the page until then; the wall time is a
detail. Then a run is submitted every second, and the page updates. One figure is the script time
per response, as the browser measures it. The other figure is the CPU time of the service with its
readers, less the CPU time of the same commits without a page, which is measured just before and
just after. Waiting runs do not change the map and the timeline, so the script time of these pages
is measured while a node is cordoned and uncordoned. All readers have read the state before the
first measurement.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any, Final

import httpx

from benchmarks.figure import Effort, Figure
from benchmarks.http_load import Target
from benchmarks.reads import NODES, OUT, OWNERS, WAITING, full_ledger
from benchmarks.serving import Served, served
from benchmarks.worlds import FLAVOR
from quorate.documents import API_VERSION
from quorate.service.readers.read_pool import READERS

VIEW_S: Final = 2.0
HEAP_MB: Final = 60.0
UPDATE_MS: Final = 100.0
CPU_PERCENT: Final = 1.0
SUBJECT: Final = {
    "overview": ("", ".flavor"),
    "queue": ("queue", "tbody tr"),
    "fleet": ("fleet", ".map canvas"),
    "budgets": ("budgets", "tbody tr"),
    "run": ("runs/{run}", ".facts"),
    "timeline": ("timeline", ".gantt canvas"),
    "owners": ("owners", "tbody tr"),
}
"""The path of each page, and an element that appears when the page shows its subject."""
CHANGED_BY_NODES: Final = {"fleet": "", "timeline": "/api/v1/map"}
"""Pages that change with nodes, and the path each then requests; the map only uses the stream."""
CHANGES: Final = 2
SHOWN_S: Final = 4
WAIT_MS: Final = 120_000
CALM_CPU_S: Final = 0.7
"""The most CPU seconds of a round of requests in which no reader had to read the state first."""
CALM_ROUNDS: Final = 3
WARM_ROUNDS_MAX: Final = 60


def measure(effort: Effort) -> list[Figure]:
    """Return first views, memory, updates and CPU of the service; nothing without a browser."""
    from tests.web.browsing import chromium_here, why_none  # noqa: PLC0415 - only where measured

    if chromium_here() is None:
        print(f"dashboard: not measured: {why_none()}", file=sys.stderr)
        return []
    OUT.mkdir(exist_ok=True)
    size = effort.of(NODES, 100), effort.of(OWNERS, 20), effort.of(WAITING, 500)
    with TemporaryDirectory(dir=OUT) as folder:
        waiting = full_ledger(Path(folder) / "service.db", *size)
        with served(Path(folder)) as service, _browser(service.target) as context:
            seconds, beside = effort.of(60, 3), effort.of(20, 2)
            _warm(service)
            taken: list[_Taken] = []
            alone = [_recorded(service, "alone-0", beside)]
            for name, (path, shows) in SUBJECT.items():
                page = _Opened(context, service, path.format(run=waiting[len(waiting) // 2]), shows)
                taken.append(page.taken(name, seconds))
                alone.append(_recorded(service, f"alone-{len(alone)}", beside))
    pairs = zip(taken, pairwise(alone), strict=True)
    return [figure for each, between in pairs for figure in each.figures(between)]


def _warm(service: Served) -> None:
    """Send requests until every reader has read the state and ordered the queue.

    Any free reader may take the next request, so a few requests do not reach every reader. Each
    round has more requests than there are readers; rounds end after several cheap ones in a row.
    """

    def ask(number: int) -> None:
        with _client(service.target) as client:
            client.get(f"/api/v1/queue?limit={number}").raise_for_status()

    calm = 0
    for _ in range(WARM_ROUNDS_MAX):
        before = _tree_cpu_s(service.pid)
        with ThreadPoolExecutor(2 * READERS) as pool:
            list(pool.map(ask, range(1, 4 * READERS)))
        calm = calm + 1 if _tree_cpu_s(service.pid) - before < CALM_CPU_S else 0
        if calm == CALM_ROUNDS:
            return
    raise RuntimeError(f"after {WARM_ROUNDS_MAX} rounds of requests readers still read the state")


@contextmanager
def _browser(target: Target) -> Iterator[Any]:
    """Yield the context of a browser that is signed in."""
    from tests.web.browsing import browser_here, sign_in  # noqa: PLC0415 - as above

    with browser_here() as browser:
        context = browser.new_context(viewport={"width": 1360, "height": 850})
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        sign_in(page, f"http://{target.host}:{target.port}/", target.token)
        page.close()
        yield context
        context.close()


class _Opened:
    """One page, newly opened."""

    def __init__(self, context: Any, service: Served, path: str, shows: str) -> None:
        self._service = service
        self._page = context.new_page()
        self._meter = context.new_cdp_session(self._page)
        # Use the CPU time of the page's thread, because a busy machine changes it less than wall
        # time.
        self._meter.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._answers = 0
        began, cpu_s = perf_counter(), _tree_cpu_s(service.pid)
        self._page.goto(f"http://{service.target.host}:{service.target.port}/{path}")
        self._page.wait_for_selector(shows)
        self._waited_s = perf_counter() - began
        # The CPU time of the service and of the page: parsing, script, layout and drawing.
        self._view_s = _tree_cpu_s(service.pid) - cpu_s + self._metrics()["TaskDuration"]

    def _metrics(self) -> dict[str, float]:
        told = self._meter.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in told}

    def _count(self, request: Any) -> None:
        self._answers += "/api/v1/" in request.url

    def taken(self, name: str, seconds: int) -> _Taken:
        """Return the cost of this page in ``seconds``, and close the page."""
        self._page.wait_for_selector(".loading", state="detached")
        sleep(2)
        self._page.on("requestfinished", self._count)
        before = self._metrics()["ScriptDuration"]
        cpu = _recorded(self._service, name, seconds)
        script_s = self._metrics()["ScriptDuration"] - before
        updates = self._answers
        if name in CHANGED_BY_NODES:
            script_s, updates = self._script_of_changes(CHANGED_BY_NODES[name]), CHANGES
        self._meter.send("HeapProfiler.collectGarbage")
        heap = self._metrics()["JSHeapUsedSize"]
        self._page.close()
        return _Taken(
            name=name,
            view_s=self._view_s,
            waited_s=self._waited_s,
            heap_mb=heap / 1e6,
            script_s=script_s,
            updates=updates,
            cpu=cpu,
            seconds=seconds,
        )

    def _script_of_changes(self, asks: str) -> float:
        """Return the script time of ``CHANGES`` changes of a node's status.

        The page has shown a change when it has requested ``asks`` and was then idle for some
        seconds.
        """
        with _client(self._service.target) as client:
            (node,) = client.get("/api/v1/nodes?limit=1").raise_for_status().json()["items"]
            name = node["metadata"]["name"]
            before = self._metrics()["ScriptDuration"]
            for number in range(CHANGES):
                change = "uncordon" if number % 2 else "cordon"
                with self._asking(asks):
                    client.post(f"/api/v1/nodes/{name}/{change}", json={}).raise_for_status()
                sleep(SHOWN_S)
            return self._metrics()["ScriptDuration"] - before

    @contextmanager
    def _asking(self, asks: str) -> Iterator[None]:
        """Wait until the page has received the response to ``asks``, if it requests any."""
        if not asks:
            yield
            # Playwright processes events only while it waits.
            self._page.wait_for_timeout(1_000)
            return
        with self._page.expect_response(lambda answer: asks in answer.url, timeout=WAIT_MS):
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """The cost of a page; ``cpu`` is the part of a core that the service used meanwhile."""

    name: str
    view_s: float
    waited_s: float
    heap_mb: float
    script_s: float
    updates: int
    cpu: float
    seconds: int

    def figures(self, alone: tuple[float, float]) -> list[Figure]:
        """Return the figures; ``alone`` is the service's CPU before and after, without a page."""
        return [
            Figure(
                name=f"{self.name}: first view",
                unit="s",
                value=self.view_s,
                better="less",
                target=VIEW_S,
                details={"waited s": self.waited_s},
            ),
            Figure(
                name=f"{self.name}: memory",
                unit="MB",
                value=self.heap_mb,
                better="less",
                target=HEAP_MB,
            ),
            Figure(
                name=f"{self.name}: script of an update",
                unit="ms",
                value=1e3 * self.script_s / max(1, self.updates),
                better="less",
                target=UPDATE_MS,
                details={"updates": self.updates, "seconds": self.seconds},
            ),
            Figure(
                name=f"{self.name}: CPU of the service",
                unit="%",
                value=max(0.0, 100 * (self.cpu - mean(alone))),
                better="less",
                target=CPU_PERCENT,
                details={
                    "commits alone before, %": 100 * alone[0],
                    "commits alone after, %": 100 * alone[1],
                },
            ),
        ]


def _recorded(service: Served, name: str, seconds: int) -> float:
    """Return the part of a core that the service uses while a run is submitted each second."""
    before, start = _tree_cpu_s(service.pid), perf_counter()
    for number in range(seconds):
        sleep(max(0.0, start + number - perf_counter()))
        document = {
            "apiVersion": API_VERSION,
            "kind": "Run",
            "metadata": {"name": f"{name}-{number}"},
            "spec": {"owner": "o001", "resources": {"gpuType": FLAVOR, "totalGPUs": 8}},
        }
        with _client(service.target) as client:
            client.post("/api/v1/runs", json={"document": document}).raise_for_status()
    sleep(max(0.0, start + seconds - perf_counter()))
    return (_tree_cpu_s(service.pid) - before) / (perf_counter() - start)


def _client(target: Target) -> httpx.Client:
    """Return a synchronous client, because Playwright uses the event loop of this thread."""
    headers = {"Authorization": f"Bearer {target.token}"}
    url = f"http://{target.host}:{target.port}"
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=WAIT_MS / 1_000)


def _tree_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and of its descendants that still run."""
    times: dict[int, tuple[int, float]] = {}
    for told in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = told.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # The process has ended.
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        times[int(told.parent.name)] = int(fields[1]), used
    family = {pid}
    while more := {each for each, (parent, _) in times.items() if parent in family} - family:
        family |= more
    return sum(times[each][1] for each in family if each in times)
