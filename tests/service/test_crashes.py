from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import GENESIS
from quorate.ledger.codec import event_to_json
from quorate.service.reply import to_json
from quorate.views.runs.event_text import entries
from tests.bounds import Deadline
from tests.oracles.effort import few_of, sized
from tests.service.crashing import IN_COMMIT, PLACES, WATCHED, Instant
from tests.service.lives import crashing, deaths, prepared, verify
from tests.service.lives import end as end_all
from tests.service.program import reserved_port
from tests.service.worlds import run_tree

KILLS = {instant: sized(max(2, len(PLACES[instant])), 12) for instant in Instant}
"""How often the service dies: at each of its places at least once."""
SUBMITTERS = 6
AGAIN_S = 0.02
WHOLE_S = 400.0
"""The time limit of all lives on a busy machine; on an idle machine they take half a minute."""


@dataclass
class Crowd:
    """Clients that submit runs and repeat unanswered requests, and a watcher that resumes."""

    client: httpx.AsyncClient
    folder: Path
    server: subprocess.Popen[bytes]
    kills: int
    is_over: bool = False
    cursor: int = 0
    sent: int = 0
    cut_off: int = 0
    resumed: int = 0
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    deadline: Deadline = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = Deadline(f"{self.kills} lives are over and seen", WHOLE_S, self.server)

    async def run(self) -> int:
        """Return the last sequence, after enough deaths, when all events were seen."""
        watching = asyncio.ensure_future(self.watch())
        submitting = [asyncio.ensure_future(self.submit()) for _ in range(SUBMITTERS)]
        while len(deaths(self.folder)) < self.kills:
            self.deadline.check(lambda: deaths(self.folder))
            await asyncio.sleep(AGAIN_S)
            for each in (watching, *submitting):
                if each.done():
                    each.result()
        self.is_over = True
        await asyncio.gather(*submitting)
        end = await self._end()
        while self.cursor < end:
            self.deadline.check(lambda: self.cursor)
            await asyncio.sleep(AGAIN_S)
            end = await self._end()
        watching.cancel()
        return end

    async def _end(self) -> int:
        return int((await self.client.get("/readyz")).json()["sequence"])

    async def submit(self) -> None:
        """Submit one run after another; repeat each request until it is answered."""
        while not self.is_over:
            self.sent += 1
            name = f"run-{self.sent}"
            document = run_tree(name, "rai", gpus=1, runtime={"expectedDuration": "1s"})
            while name not in self.answers:
                try:
                    answer = await self.client.post(
                        "/api/v1/runs",
                        json={"document": document},
                        headers={"Idempotency-Key": f"key-{name}"},
                    )
                except httpx.TransportError:
                    self.cut_off += 1
                    self.deadline.check()
                    await asyncio.sleep(AGAIN_S)
                    continue
                assert answer.status_code == 200, answer.text
                self.answers[name] = answer.json()

    async def watch(self) -> None:
        """Watch from the first event on, and resume from the cursor when the stream breaks."""
        while True:
            headers = {"Last-Event-ID": str(self.cursor)}
            try:
                async with self.client.stream("GET", "/api/v1/watch", headers=headers) as answer:
                    assert answer.status_code == 200, await answer.aread()
                    self.resumed += 1
                    (self.folder / WATCHED).touch()
                    await self._read(answer)
            except httpx.TransportError:
                self.deadline.check()
                await asyncio.sleep(AGAIN_S)

    async def _read(self, answer: httpx.Response) -> None:
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            # Events move the cursor, and so do the bare ids between them.
            self.cursor = int(fields["id"])
            if "data" in fields and fields["event"] != "stopping":
                self.seen.append((self.cursor, json.loads(fields["data"])))
            fields = {}


async def _go_on(
    folder: Path, port: int, token: str, server: subprocess.Popen[bytes], kills: int
) -> tuple[Crowd, int]:
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=30,
    ) as client:
        crowd = Crowd(client, folder, server, kills)
        async with asyncio.timeout(WHOLE_S):
            return crowd, await crowd.run()


def _check_deaths(folder: Path, hashes: set[str], instant: Instant) -> None:
    """Check that each life ended at its instant: with its block in the ledger, or without."""
    found = deaths(folder)
    assert len(found) == KILLS[instant]
    assert {place for _, place, _ in found} == set(PLACES[instant])
    for when, place, digest in found:
        assert when == instant
        if instant in (Instant.AFTER, Instant.SNAPSHOT):
            assert digest in hashes, (when, place)
        elif place != IN_COMMIT:
            assert digest not in hashes, (when, place)


@pytest.mark.slow
@pytest.mark.timeout(WHOLE_S + 200)
@pytest.mark.parametrize(
    "instant", few_of((Instant.GROUP, Instant.SNAPSHOT, Instant.BEFORE, Instant.AFTER), 1)
)
def test_a_daemon_killed_under_load_loses_and_doubles_nothing(
    tmp_path: Path, instant: Instant
) -> None:
    ledger, token = prepared(tmp_path)
    kills = KILLS[instant]
    with (
        reserved_port() as port,
        crashing("tests.service.crashing", ledger, str(port), instant.value, str(kills)) as process,
    ):
        try:
            crowd, end = asyncio.run(_go_on(tmp_path, port, token, process, kills))
        except BaseException as error:
            error.add_note((tmp_path / "err.txt").read_text(encoding="utf-8")[-4_000:])
            raise
        end_all(process, tmp_path)

    verify(ledger)
    with SqliteStore.read(ledger) as store:
        hashes = {block.hash.hex() for block in store.blocks()}
        trees = [
            (entry.seq, json.loads(to_json(event_to_json(entry.seq, entry.event))))
            for entry in entries(store.blocks(), after=GENESIS)
        ]
    _check_deaths(tmp_path, hashes, instant)
    assert crowd.cut_off >= kills
    assert crowd.resumed > kills, "every life was watched"
    _check_submits(crowd, trees)
    # All events, each once, in order, and as in the ledger: none was sent before it was durable.
    assert crowd.seen[:end] == trees[:end]


def _check_submits(crowd: Crowd, trees: list[tuple[int, dict[str, Any]]]) -> None:
    """Check that each run that was sent is in the ledger once, at the sequence in its answer."""
    runs = Counter(tree["run"]["name"] for _, tree in trees if tree["tag"] == "run-submitted/1")
    keys = Counter(tree["key"] for _, tree in trees if tree["tag"] == "request-kept/1")
    sent = {f"run-{number}" for number in range(1, crowd.sent + 1)}
    assert crowd.answers.keys() == sent
    assert runs == dict.fromkeys(sent, 1)
    assert keys == {f"/admin/key-{name}": 1 for name in sent}
    by_seq = dict(trees)
    for name, answer in crowd.answers.items():
        for event in answer["events"]:
            assert by_seq[event["seq"]] == event
        assert name in json.dumps(answer)
