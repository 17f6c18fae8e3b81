from __future__ import annotations

import asyncio
import json
import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import GENESIS
from quorate.ledger.codec import event_to_json
from quorate.service.http.event_stream import FRAMES_BYTES_MAX
from quorate.service.reply import to_json
from quorate.service.setting_table import LEDGER_DEFAULT
from quorate.views.runs.event_text import entries
from tests.oracles.effort import sized
from tests.service.conftest import documents_of
from tests.service.crowd import HEAD_END, Place, Told, Watcher, closed
from tests.service.program import Program, program
from tests.service.worlds import run_tree

WATCHERS = sized(10, 200)
SUBMITS = sized(100, 2_000)
NODES = 20_000
"""So many that their data does not fit into the buffers between two programs."""
NODES_AT_ONCE = 4_000
SLOW_S = 5
WHOLE_S = 400
LOOK_S = 0.1
FILES = 6_000
MIB = 1024 * 1024

# How much more memory the service may use, and why. Copies of everything for every watcher would
# take three times as much as all of this together.
EVENT_BYTES_MAX = 4 * 1024
"""For an event, with any number of watchers: its copies in the state, in memory and in frames."""
WATCHER_BYTES_MAX = 256 * 1024
"""For a watcher: at most 500 events that are read at a time, and the bytes to be sent."""
REQUEST_BYTES_MAX = 16 * 1024
"""For a submit under way: its connection, the request and the answer."""
FIRST_BYTES_MAX = 8 * MIB
"""Once, with any number of watchers: memory loaded and mapped when a service is first busy.

It was 1 to 4 MiB; it is more on a busier machine, because more threads are active at once.
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Program]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), hard))
    with program(tmp_path, "--limits-slow-client-s", str(SLOW_S)) as found:
        yield found
        assert found.end() == 0
        assert "Traceback" not in found.err


def memory_bytes(pid: int, field: str) -> int:
    """Return what a process has in memory now (``VmRSS``) or had at most (``VmHWM``)."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise AssertionError(field)


async def end_of(place: Place) -> int:
    return int((await place.ask("GET", "/readyz"))["sequence"])


async def prepare(place: Place) -> int:
    """Create teams and nodes with more data than buffers hold; return the last sequence."""
    documents = documents_of("fleet.yaml", "teams.yaml")
    await place.ask("POST", "/api/v1/apply", {"documents": documents})
    node = documents[0]
    for start in range(0, NODES, NODES_AT_ONCE):
        nodes = [
            node | {"metadata": node["metadata"] | {"name": f"x-{number}"}}
            for number in range(start, start + NODES_AT_ONCE)
        ]
        await place.ask("POST", "/api/v1/apply", {"documents": nodes})
    return await end_of(place)


async def submit(
    place: Place, number: int, gate: asyncio.Event, ready: asyncio.Semaphore
) -> list[int]:
    """Return the events of one run, submitted on a separate connection when the gate opens."""
    body = json.dumps({"document": run_tree(f"run-{number}", "rai", gpus=1)}).encode()
    reader, writer = await asyncio.open_connection(place.host, place.port)
    # After a first request, a connection may wait until all others are connected.
    writer.write(place.request("GET", "/healthz"))
    head = await reader.readuntil(HEAD_END)
    assert head.startswith(b"HTTP/1.1 200 "), head
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None, head
    await reader.readexactly(int(length[1]))
    ready.release()
    await gate.wait()
    headers = (f"Idempotency-Key: {number}", "Connection: close")
    writer.write(place.request("POST", "/api/v1/runs", body, *headers))
    head, _, answer = (await reader.read()).partition(b"\r\n\r\n")
    await closed(writer)
    assert head.startswith(b"HTTP/1.1 200 "), (head, answer)
    return [event["seq"] for event in json.loads(answer)["events"]]


async def submit_all(place: Place) -> list[int]:
    """Return the events of all runs, whose submits are sent at the same moment."""
    gate = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        ready = asyncio.Semaphore(0)
        sent = [tasks.create_task(submit(place, number, gate, ready)) for number in range(SUBMITS)]
        for _ in sent:
            await ready.acquire()
        gate.set()
    return [seq for each in sent for seq in each.result()]


async def follow_all(crowd: list[Watcher], recorded: asyncio.Future[int]) -> None:
    """Return when every watcher has received all recorded events."""
    async with asyncio.TaskGroup() as tasks:
        reading = [tasks.create_task(each.read_on()) for each in crowd]
        end = await recorded
        while any(each.cursor < end for each in crowd):
            await asyncio.sleep(LOOK_S)
            assert all(each.parting is None for each in crowd), "one that reads was dropped"
        for each in reading:
            each.cancel()


async def be_slow(watcher: Watcher, served: Program) -> None:
    """Read nothing until one watch is dropped for this, and then read what was sent before."""
    await asyncio.to_thread(served.logged, "path=/api/v1/watch ", WHOLE_S)
    await watcher.begin()
    await watcher.read_on()
    assert watcher.parting is not None
    kind, data = watcher.parting
    assert kind == "dropped"
    assert data == {"cursor": watcher.cursor, "from": watcher.cursor + 1}


async def scenario(place: Place, served: Program) -> tuple[Told, int]:
    """Return what the watchers received, and the last sequence of the ledger."""
    start = await prepare(place)
    told = Told()
    slow = Watcher(place, told, 0)
    await slow.connect(receive_bytes=4_096)
    crowd = [Watcher(place, told, start) for _ in range(WATCHERS)]
    for each in crowd:
        await each.connect()
        await each.begin()
    resting = memory_bytes(served.process.pid, "VmRSS")
    recorded: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow_all(crowd, recorded))
        dropped = tasks.create_task(be_slow(slow, served))
        seqs = await submit_all(place)
        end = await end_of(place)
        recorded.set_result(end)
    assert dropped.done()
    assert len(seqs) == len(set(seqs))
    assert set(seqs) <= set(range(start + 1, end + 1))
    assert [each.events for each in crowd] == [end - start] * WATCHERS

    missed = end - slow.cursor
    assert missed > 0
    await slow.connect()
    await slow.begin()
    await slow.read_to(end)
    assert slow.events == end
    for each in (slow, *crowd):
        await each.close()
    grown = memory_bytes(served.process.pid, "VmHWM") - resting
    allowed = (
        FIRST_BYTES_MAX
        + FRAMES_BYTES_MAX
        + (end - start) * EVENT_BYTES_MAX
        + WATCHERS * WATCHER_BYTES_MAX
        + SUBMITS * REQUEST_BYTES_MAX
    )
    assert grown < allowed, f"{grown / MIB:.0f} MiB more, {allowed / MIB:.0f} allowed"
    return told, end


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(WHOLE_S + 200)
def test_many_watch_many_submits(served: Program, tmp_path: Path) -> None:
    host, _, port = served.wait_ready().removeprefix("http://").partition(":")
    place = Place(host, int(port), served.token)

    async def bounded() -> tuple[Told, int]:
        async with asyncio.timeout(WHOLE_S):
            return await scenario(place, served)

    told, end = asyncio.run(bounded())
    with SqliteStore.read(tmp_path / LEDGER_DEFAULT) as store:
        recorded = [
            to_json(event_to_json(entry.seq, entry.event)).rstrip()
            for entry in entries(store.blocks(), after=GENESIS)
        ]
    assert [told.frames[seq].partition(b"\ndata: ")[2] for seq in range(1, end + 1)] == recorded
