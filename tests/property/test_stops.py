"""Random histories of a small fleet with an executor: nodes fail, and stops take time.

The state machine of ``test_histories.py`` with all commands, and with stops that are two facts:
slots become free when the executor confirms, and not before.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from quorate.core.audit.commit_checks import check_touched
from quorate.core.commands import Confirm, Drain, Fail, MarkNode, Shrink, Tick
from quorate.core.next_due import next_due_ms
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import NodeStatus
from tests.oracles.effort import IS_SOAK, examples, sized
from tests.property.test_histories import Histories

_STATUSES = (NodeStatus.FAILED, NodeStatus.FAILED, NodeStatus.READY, NodeStatus.CORDONED)


class Failures(Histories):
    """One ledger without an executor: a stop is both facts at once."""

    @rule(data=st.data(), status=st.sampled_from(_STATUSES))
    def mark_a_node(self, data: st.DataObject, status: NodeStatus) -> None:
        self._do(MarkNode(data.draw(self._some_node()), status, "seen"))

    @rule(data=st.data())
    def drain_a_node(self, data: st.DataObject) -> None:
        self._do(Drain(data.draw(self._some_node())))

    @rule(data=st.data(), gpus=st.integers(0, 6))
    def shrink(self, data: st.DataObject, gpus: int) -> None:
        self._do(Shrink(data.draw(self._some_run()), gpus))

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        run, has_gone = data.draw(self._some_run()), data.draw(st.booleans())
        self._do(Fail(run, "exit code 1", has_gone=has_gone))

    @rule()
    def tick_twice(self) -> None:
        """Tick, and check that a second tick changes nothing and that nothing is left due."""
        self._do(Tick())
        assert self._decide(self.state, Tick()).events == ()
        now_ms = max(self.now_ms, self.state.at_ms)
        due_ms = next_due_ms(self.state, has_executor=self.has_executor, after_ms=now_ms)
        assert due_ms is None or due_ms > now_ms

    def _some_node(self) -> st.SearchStrategy[str]:
        busy = [node for node, leases in self.state.node_leases.items() if leases]
        return st.sampled_from([*busy, *busy, *sorted(self.state.nodes), "nowhere"])

    @invariant()
    def what_was_touched_holds(self) -> None:
        assert check_touched(self.state, self.events[-20:]) == []


class Stops(Failures):
    """The same with an executor, which confirms at random times."""

    has_executor = True

    @rule(data=st.data(), ms=st.sampled_from((0, MINUTE_MS)))
    def confirm(self, data: st.DataObject, ms: int) -> None:
        ending = [name for name, lease in self.state.leases.items() if lease.ending is not None]
        names = [*ending, *ending, *list(self.state.leases)[:1], "run0/0"]
        self.now_ms += ms
        self._do(Confirm(data.draw(st.sampled_from(names))))

    @rule()
    def confirm_everything(self) -> None:
        for name, lease in tuple(self.state.leases.items()):
            if lease.ending is not None:
                self._do(Confirm(name))


_SETTINGS = settings(
    examples(0.4 if IS_SOAK else 0.2),
    stateful_step_count=sized(20, 30),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestFailures = pytest.mark.heavy(Failures.TestCase)
TestFailures.settings = _SETTINGS
TestStops = pytest.mark.heavy(Stops.TestCase)
TestStops.settings = _SETTINGS
