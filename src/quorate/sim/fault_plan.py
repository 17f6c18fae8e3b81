"""Faults of a machine room, at instants drawn from a seed.

Nodes lose power and recover. The program crashes between commits or during a commit. Clocks jump.
Messages arrive late or twice. Stops hang until an operator cuts the power of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from types import TracebackType
from typing import Final, Self

from quorate.core.commands import Command, Drain, MarkNode, Wiped
from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import Block, Head
from quorate.ledger.checkpoint import Checkpoint
from quorate.model.amounts import HOUR_MS, MINUTE_MS, SECOND_MS
from quorate.model.events import NodeStatus, Role
from quorate.ports.store_port import EventStore
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import CrashedError, Simulation

RESCUE_AFTER_MS: Final = 2 * HOUR_MS
"""How long a stop may hang before an operator cuts the power."""


class Loss(Enum):
    """Whether the block of an append is stored if the program crashes during the append."""

    LOST = auto()
    KEPT = auto()


_DECLARED: Final = b"conflict-declared/"
_RESOLVED: Final = b"conflict-resolved/"


class CrashingStore:
    """A store that wraps another store; the program may crash during one of its appends.

    The store calls ``watch`` for every block that declares or settles a conflict: these are the
    instants at which an attacker would make the program crash. If ``watch`` returns True, the
    program crashes.
    """

    def __init__(self, inner: EventStore) -> None:
        self._inner = inner
        self.next_loss: Loss | None = None
        self.watch: Callable[[], bool] = lambda: False

    def head(self) -> Head:
        """Return the head of the log."""
        return self._inner.head()

    def append(self, block: Block, *, expected: Head) -> None:
        """Append ``block``, or end the program before or after the append; see ``EventStore``."""
        loss, self.next_loss = self.next_loss, None
        if loss is None and (_RESOLVED in block.body or _DECLARED in block.body) and self.watch():
            loss = Loss.LOST if _RESOLVED in block.body else Loss.KEPT
        if loss is not Loss.LOST:
            self._inner.append(block, expected=expected)
        if loss is not None:
            raise CrashedError(loss.name)

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Append ``blocks`` and return the head."""
        return self._inner.append_all(blocks)

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        """Yield the blocks from ``from_height`` on."""
        return self._inner.blocks(from_height=from_height)

    @property
    def is_shared(self) -> bool:
        """Whether other programs may append to the inner store."""
        return self._inner.is_shared

    def kept_end(self) -> Checkpoint | None:
        """Return the record of the log's end that the inner store keeps apart from the log."""
        return self._inner.kept_end()

    def verified_head(self) -> Head:
        """Return the head up to which the inner store has verified the chain."""
        return self._inner.verified_head()

    def height_at(self, seq: int) -> int:
        """Return the height of the block that holds event ``seq``."""
        return self._inner.height_at(seq)

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        """Store ``payload`` as the state at ``head``, and the archived runs ``ended``."""
        self._inner.save_snapshot(head, payload, ended, base_seq=base_seq)

    def load_snapshot(self) -> tuple[Head, bytes] | None:
        """Return the stored snapshot and its head, if there is one."""
        return self._inner.load_snapshot()

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        """Return the row of the run ``name``."""
        return self._inner.archived_run(name, upto_seq)

    def archived_names(self, query: RowQuery) -> list[tuple[int, str]]:
        """Return (sequence number of the submission, name) of archived runs."""
        return self._inner.archived_names(query)

    def archived_rows(self, query: RowQuery) -> list[ArchivedRow]:
        """Return rows of archived runs."""
        return self._inner.archived_rows(query)

    def archived_count(self, owner: str, upto_seq: int) -> int:
        """Return how many runs of ``owner`` were archived."""
        return self._inner.archived_count(owner, upto_seq)

    def close(self) -> None:
        """Close the inner store."""
        self._inner.close()

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    """Mean times between faults (0: never), and the percentages of unusual messages and stops."""

    node_loss_ms: int = 0
    upkeep_ms: int = 0
    crash_ms: int = 0
    clock_jump_ms: int = 0
    late_percent: int = 0
    twice_percent: int = 0
    slow_stop_percent: int = 0
    hanging_stop_percent: int = 0
    declared_crash_percent: int = 0


class Courier:
    """Delivers commands of people until the engine answers. Some commands come late, some twice.

    Before the courier reports that a node is clean, the node is wiped by hand. The node is not
    wiped if another claim has left data on the node, or if the node is in use.
    """

    RETRY_MS = 2 * MINUTE_MS
    """How long a caller without an answer waits before it sends the command again."""

    def __init__(
        self, simulation: Simulation, executor: SimExecutor, rates: FaultRates, chance: Random
    ) -> None:
        self._simulation = simulation
        self._executor = executor
        self._rates = rates
        self._chance = chance

    def send(self, command: Command, *, actor: str = "people") -> None:
        """Deliver ``command`` now or a little later, once or twice."""
        deliver = self._delivery(command, actor)
        if self._odds(self._rates.late_percent):
            self._simulation.timeline.after(self._chance.randrange(20 * MINUTE_MS), deliver)
        else:
            deliver()
        if self._odds(self._rates.twice_percent):
            self._simulation.timeline.after(self._chance.randrange(2 * HOUR_MS), deliver)

    def insist(self, command: Command, *, actor: str) -> None:
        """Deliver ``command`` now, and repeat it until the engine answers."""
        self._delivery(command, actor)()

    def _odds(self, percent: int) -> bool:
        return self._chance.randrange(100) < percent

    def _delivery(self, command: Command, actor: str) -> Callable[[], None]:
        def deliver() -> None:
            if isinstance(command, Wiped) and command.is_clean and command.claim is not None:
                self._executor.clean_by_hand(command.node, command.claim)
            if self._simulation.send(command, actor=actor) is None:
                self._simulation.timeline.after(self.RETRY_MS, deliver)

        return deliver


class Faults:
    """Causes faults in ``simulation`` until ``until_ms``, and repairs each of them."""

    def __init__(  # noqa: PLR0913 - the parts of a machine room
        self,
        simulation: Simulation,
        executor: SimExecutor,
        store: CrashingStore,
        rates: FaultRates,
        *,
        nodes: tuple[str, ...],
        chance: Random,
        until_ms: int,
    ) -> None:
        self._simulation = simulation
        self._timeline = simulation.timeline
        self._executor = executor
        self._store = store
        self._rates = rates
        self._nodes = nodes
        self._chance = chance
        self._until_ms = until_ms
        self._down: set[str] = set()
        self._courier = Courier(simulation, executor, rates, chance)

    def begin(self) -> None:
        """Plan the first fault of each kind; each fault plans the next fault of the same kind."""
        self._again(self._rates.node_loss_ms, self._lose_a_node)
        self._again(self._rates.upkeep_ms, self._upkeep)
        self._again(self._rates.crash_ms, self._crash)
        self._again(self._rates.clock_jump_ms, self._jump)
        self._timeline.after(HOUR_MS, self._rescue)
        self._store.watch = self._ends_at_a_conflict

    def _ends_at_a_conflict(self) -> bool:
        """Return whether the program crashes now, when a conflict is declared or settled.

        If the program crashes, its restart is planned.
        """
        if self._chance.randrange(100) >= self._rates.declared_crash_percent:
            return False
        self._reopen_once_down(self._chance.choice((0, SECOND_MS, 10 * MINUTE_MS)))
        return True

    def _again(self, mean_ms: int, action: Callable[[], None]) -> None:
        """Plan ``action`` at a random interval, again and again until ``until_ms``."""
        if not mean_ms:
            return

        def happen() -> None:
            if self._timeline.now_ms < self._until_ms:
                action()
                self._again(mean_ms, action)

        self._timeline.after(1 + int(self._chance.expovariate(1 / mean_ms)), happen)

    def _lose_a_node(self) -> None:
        """Cut the power of a node, report the node failed, and restore it some hours later."""
        self._fence(self._some_node(), self._chance.randrange(2 * MINUTE_MS))

    def _some_node(self) -> str:
        """Return a node, preferably with a stopping lease or with a run whose spare is filled."""
        stopping = self._executor.stuck_nodes(since_ms=self._timeline.now_ms)
        filled = self._unspared()
        hurt = self._chance.choice((stopping, filled, filled, ()))
        return self._chance.choice(hurt or self._nodes)

    def _unspared(self) -> list[str]:
        """Return the nodes of runs whose spares are used by other runs."""
        engine = self._simulation.engine
        if engine is None:
            return []
        view = engine.view
        runs = {pledge.run for pledge in view.pledges.values()}
        leases = (view.leases[name] for run in sorted(runs) for name in view.runs[run].leases)
        return [
            node
            for lease in leases
            if lease.fact.role is not Role.SPARE
            for node, _ in lease.fact.slots
        ]

    def _fence(self, node: str, notice_ms: int) -> None:
        if node in self._down:
            return
        self._down.add(node)
        self._executor.lose_node(node)
        failed, ready = (
            MarkNode(node, status, "power") for status in (NodeStatus.FAILED, NodeStatus.READY)
        )

        def restore() -> None:
            self._down.discard(node)
            self._executor.restore_node(node)
            self._courier.insist(ready, actor="watchdog")

        def notice() -> None:
            if self._simulation.send(failed, actor="watchdog") is None:
                self._timeline.after(Courier.RETRY_MS, notice)
            else:
                # Power comes back only after the ledger knows that it was off.
                self._timeline.after(self._chance.randrange(MINUTE_MS, 6 * HOUR_MS), restore)

        self._timeline.after(notice_ms, notice)

    def _upkeep(self) -> None:
        """Cordon or drain a node, and make it ready again later."""
        node = self._some_node()
        if node in self._down:
            return
        self._down.add(node)
        command = self._chance.choice(
            (MarkNode(node, NodeStatus.CORDONED), Drain(node), Drain(node, "new firmware"))
        )
        self._courier.insist(command, actor="operator")

        def give_back() -> None:
            self._down.discard(node)
            self._courier.insist(MarkNode(node, NodeStatus.READY), actor="operator")

        self._timeline.after(self._chance.randrange(MINUTE_MS, 4 * HOUR_MS), give_back)

    def _crash(self) -> None:
        """End the program now, or inside its next commit, and restart it after a while."""
        down_ms = self._chance.choice((0, SECOND_MS, 10 * MINUTE_MS, 3 * HOUR_MS))
        kind = self._chance.choice((None, Loss.LOST, Loss.KEPT))
        if kind is None:
            self._simulation.crash()
            if self._chance.randrange(2):
                self._executor.forget_stops()
            self._timeline.after(down_ms, self._simulation.reopen)
            return
        self._store.next_loss = kind
        self._reopen_once_down(down_ms)

    def _reopen_once_down(self, down_ms: int) -> None:
        def look() -> None:
            if self._simulation.engine is None:
                self._timeline.after(down_ms, self._simulation.reopen)
            else:
                self._timeline.after(MINUTE_MS, look)

        self._timeline.after(MINUTE_MS, look)

    def _jump(self) -> None:
        """Set the clock wrong, a little or by hours, and right again some time later."""
        clock = self._timeline.clock
        clock.skew_ms += self._chance.choice((-1, 1)) * self._chance.choice(
            (1, SECOND_MS, 5 * MINUTE_MS, 2 * HOUR_MS)
        )

        def set_right() -> None:
            clock.skew_ms = 0

        self._timeline.after(self._chance.randrange(2 * HOUR_MS), set_right)

    def _rescue(self) -> None:
        """Cut the power of nodes whose leases have been stopping for hours.

        Nodes that could not be wiped after a claim are wiped by hand.
        """
        for name in self._executor.stuck_nodes(since_ms=self._timeline.now_ms - RESCUE_AFTER_MS):
            self._fence(name, 0)
        engine = self._simulation.engine
        unwiped = () if engine is None else tuple(engine.view.unwiped.items())
        for name, node in unwiped:
            late = self._timeline.now_ms - node.end_ms > RESCUE_AFTER_MS
            if not node.leases and (late or node.is_quarantined):
                done = Wiped(name, is_clean=True, claim=node.claim, note="by hand")
                self._courier.insist(done, actor="operator")
        self._timeline.after(HOUR_MS, self._rescue)


def wipes(chance: Random, *, is_honest: bool) -> Callable[[], tuple[int | None, bool]]:
    """Return a function that draws the result of a wipe: most take minutes, some fail or hang."""

    def wipe() -> tuple[int | None, bool]:
        takes_ms = chance.randrange(MINUTE_MS, HOUR_MS)
        odds = 100 if is_honest else chance.randrange(100)
        return (None if odds < 5 else takes_ms), odds >= 15  # noqa: PLR2004 - percents

    return wipe


def stop_delays(rates: FaultRates, chance: Random) -> Callable[[int], int | None]:
    """Return a function that draws how long a stop takes: within its grace, longer, or for ever."""

    def delay_ms(left_ms: int) -> int | None:
        odds = chance.randrange(100)
        if odds < rates.hanging_stop_percent:
            return None
        if odds < rates.hanging_stop_percent + rates.slow_stop_percent:
            return left_ms + chance.randrange(90 * MINUTE_MS)
        return chance.randrange(left_ms + 1)

    return delay_ms
