"""The reports of a cluster's executor about its runs, and their order."""

from __future__ import annotations

from quorate.adapters.executors.lease_book import Book
from quorate.adapters.kubernetes.pod_readiness import STARTED, STARTING
from quorate.adapters.kubernetes.run_statuses import RunStatuses, Seen
from quorate.adapters.kubernetes.run_steps import has_work, work_of
from quorate.keeper.wanted import Exited, Status
from quorate.ports.executor_port import LeaseGone, RunExited, RunUnstarted, StopLease
from quorate.testing import builders
from quorate.testing.lease_orders import lease_started, start_lease


def test_exits_come_first_then_what_cannot_be_started_then_leases_that_are_gone() -> None:
    book, statuses = Book(has_work, work_of), RunStatuses()
    for name, number in (("done", 0), ("stuck", 1), ("told", 2)):
        spec = builders.run(name, 1, image="played")
        book.take([start_lease(spec, lease_started(f"{name}/0", {"n": [number]}))], {})
    book.take([StopLease("told/0", 0)], {})
    wanted = book.wanted("done")
    assert wanted is not None
    exited = Exited(life=wanted.life, code=0, note="")
    assert statuses.keep("told", Seen(Status(gone=("told/0",)), STARTED), 1)
    assert statuses.keep("stuck", Seen(Status(), STARTING, "exceeded quota"), 2)
    assert statuses.keep("done", Seen(Status(exited=exited), STARTED), 3)
    assert statuses.reports(book) == [
        RunExited("done", "done/0", 0),
        RunUnstarted("stuck", "stuck/0", "exceeded quota"),
        LeaseGone("told/0"),
    ]
    assert not statuses.keep("stuck", Seen(Status(), STARTING, "exceeded quota"), 4)
    assert statuses.keep("stuck", Seen(Status(), STARTING), 5)
    assert RunUnstarted("stuck", "stuck/0", "exceeded quota") not in statuses.reports(book)
