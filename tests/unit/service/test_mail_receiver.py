"""Notices go to the address that a run names, when the mail server accepts them, to no other."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from quorate.adapters.stores.outbox_sqlite import SqliteOutbox
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Cancel, Submit
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.notice_kinds import NoticeKind
from quorate.model.specs import Owner, RunMail
from quorate.service.config_values import Address
from quorate.service.metrics.metric_table import DELIVERY_METRICS
from quorate.service.receivers import mail_settings
from quorate.service.receivers.delivery_counts import DeliveryCounts
from quorate.service.receivers.mail_receiver import RunMails
from quorate.service.receivers.mail_send import Mailer
from quorate.service.receivers.mail_settings import MailTls
from quorate.service.receivers.notice_sink import Lookup, NoticeSink, Source
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.views.notices.notice import KnownFew
from tests.service.mail_server import MailServer, mail_server

STARTED = (NoticeKind.RUN_STARTED,)


@dataclass
class World:
    """A ledger in memory, an outbox in a file, a mail server on loopback, and a manual clock."""

    server: MailServer
    outbox: SqliteOutbox
    clock: HandClock
    engine: Engine
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        at = Address(host="localhost", port=self.server.port)
        sender = "quorate@lab.example"
        mailer = Mailer(mail_settings.MailServer(address=at, sender=sender, tls=MailTls.NONE), None)
        self.sink = NoticeSink(
            RunMails(("lab.example",), mailer, sender),
            source=Source(
                ledger_id="test", reading=lambda: self.engine.store, look_up=self.look_up
            ),
            outbox=self.outbox,
            clock=self.clock,
            counts=DeliveryCounts(self.registry, DELIVERY_METRICS["mail"]),
        )
        self.sink.step()

    def look_up(self, runs: set[str], conflicts: set[str], tenant: str) -> Lookup:
        del tenant
        return Lookup(KnownFew.of(self.engine.view, runs, conflicts), None)

    def starts(self, name: str, to: str, kinds: tuple[NoticeKind, ...] = STARTED) -> None:
        """Start a run that names an address, and end it."""
        spec = run(name, 1, "lab", mail=RunMail(to=to, kinds=kinds))
        self.engine.execute(Submit(spec), actor="x")
        self.engine.execute(Cancel(name), actor="x")

    def got(self) -> list[tuple[str, str]]:
        """Return the address and the run of each mail."""
        return [(each.to[0], str(each.message["Subject"])) for each in self.server.mails]

    def count(self, result: str) -> float:
        labels = {"mail": "runs", "result": result}
        return self.registry.get_sample_value("quorate_mail_deliveries_total", labels) or 0.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    clock = HandClock()
    engine = memory_engine(MemoryStore(), clock)
    money = budget("labs", "lab", envelope("e", 640))
    engine.execute(Apply((*fleet({"A": 64}), Owner(name="lab"), money)), actor="root")
    with mail_server() as server, closing(SqliteOutbox.open(tmp_path / "l.outbox")) as outbox:
        yield World(server, outbox, clock, engine)


def test_only_the_kinds_that_a_run_names_are_mailed_and_only_to_allowed_domains(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.starts("one", "ada@lab.example")
    world.starts("two", "ada@lab.example", (NoticeKind.RUN_FAILED,))
    world.starts("three", "ada@sub.lab.example")
    world.starts("four", "bob@LAB.example")
    with caplog.at_level(logging.WARNING):
        world.sink.step()
    assert sorted(world.got()) == [
        ("ada@lab.example", "run-started: run/one"),
        ("bob@LAB.example", "run-started: run/four"),
    ]
    (line,) = (each for each in caplog.messages if "mail.domains" in each)
    assert "run three is not sent: sub.lab.example is not in mail.domains" in line


def test_an_address_that_does_not_exist_is_given_up_at_once_and_delays_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.server.refuse = lambda each: "550 5.1.1 no such user" if "<gone@" in each else None
    world.starts("one", "gone@lab.example")
    world.starts("two", "ada@lab.example")
    with caplog.at_level(logging.ERROR):
        world.sink.step()
    assert world.got() == [("ada@lab.example", "run-started: run/two")]
    assert (world.count("given-up"), world.count("delivered")) == (1, 1)
    assert world.outbox.waiting(world.sink.name).parcels == 0
    (line,) = (each for each in caplog.messages if "is given up" in each)
    assert (
        "the receiver rejects the notice for good: the server refuses the address: "
        "550 5.1.1 no such"
    ) in line


def test_an_address_that_is_refused_now_is_tried_again_and_delays_no_other(world: World) -> None:
    world.server.refuse = lambda each: "451 later" if "<ada@" in each else None
    world.starts("one", "ada@lab.example")
    world.starts("two", "bob@lab.example")
    world.sink.step()
    assert world.got() == [("bob@lab.example", "run-started: run/two")]
    world.server.refuse = lambda _: None
    world.clock.ms += MINUTE_MS
    world.sink.step()
    assert world.got()[1:] == [("ada@lab.example", "run-started: run/one")]


def test_a_server_that_refuses_the_sender_loses_nothing(world: World) -> None:
    world.server.refuse = lambda each: "553 no" if each.upper().startswith("MAIL") else None
    for name in ("one", "two", "three"):
        world.starts(name, f"{name}@lab.example")
    world.sink.step()
    assert world.count("failed") == 1, "the others are not tried while nothing is taken"
    world.server.refuse = lambda _: None
    for _ in range(3):
        world.clock.ms += HOUR_MS
        world.sink.step()
    assert sorted(to for to, _ in world.got()) == [
        "one@lab.example",
        "three@lab.example",
        "two@lab.example",
    ]
    assert world.count("given-up") == 0
