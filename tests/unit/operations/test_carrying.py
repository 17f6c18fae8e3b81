"""A change is described the same in a dry run, which records nothing, and after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Applied, Apply, Submit
from quorate.loop.engine import Engine
from quorate.model.specs import Malleable, Owner
from quorate.operations.fleet.fleet_operations import MarkNode
from quorate.operations.request_context import RequestContext
from quorate.operations.resources.run_operations import EndRun, ShrinkRun
from quorate.ports.executor_port import Order, Report
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock
from tests.cli.shell import as_done
from tests.unit.operations.stage import ADMIN, ask, lines_of

WIDTHS = Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8)


class Deaf:
    """An executor that never reports the end of work."""

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


def _context(executor: Deaf | None) -> RequestContext:
    engine = Engine.create(
        MemoryStore(), HandClock(), ledger_id="t", public_key="", actor="t", executor=executor
    )
    specs: tuple[Applied, ...] = (
        *fleet({"A": 16}),
        Owner(name="team"),
        budget("b", "team", envelope("e", 16)),
    )
    for command in (
        Apply(specs),
        Submit(run("wide", 8, malleable=WIDTHS, group_gpus=2)),
        Submit(run("other", 4)),
    ):
        assert not engine.execute(command, actor="t").decision.refusals
    return RequestContext(engine, ADMIN)


@pytest.mark.parametrize("executor", [None, Deaf()])
@pytest.mark.parametrize(
    ("name", "tried", "done"),
    [
        ("shrink-run", ShrinkRun(run="wide", gpus=4, dry_run=True), ShrinkRun(run="wide", gpus=4)),
        ("cancel-run", EndRun(run="wide", dry_run=True), EndRun(run="wide")),
        ("drain-node", MarkNode(node="a0000", dry_run=True), MarkNode(node="a0000")),
    ],
)
def test_a_change_is_told_as_it_was_tried(
    executor: Deaf | None, name: str, tried: ShrinkRun, done: ShrinkRun
) -> None:
    context = _context(executor)
    *before, last = lines_of(ask(context, name, tried))
    assert last.startswith("dry run: ")
    after = lines_of(ask(context, name, done))
    assert after[: len(before)] == [as_done(line) for line in before]
    assert after[len(before)].startswith("recorded ")
    assert any("wide" in line for line in before)


def test_what_was_stopping_before_is_not_told_again() -> None:
    context = _context(Deaf())
    first = lines_of(ask(context, "shrink-run", ShrinkRun(run="wide", gpus=6)))
    second = lines_of(ask(context, "shrink-run", ShrinkRun(run="wide", gpus=4)))
    assert any("8 to 6" in line for line in first), first
    assert any("6 to 4" in line for line in second), second
