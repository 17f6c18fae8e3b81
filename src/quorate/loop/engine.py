"""The engine: reads one store into one state, decides, commits and acts (docs/adr/0044).

Commands that arrive together are decided one after the other, each on the state after the previous
command. All of these commands are committed as one block with one flush: a group commit. No
response is sent before that block is durable. A block is appended only after its events were
applied without an error. If another writer committed first, the engine applies that writer's blocks
and decides again.

If other programs write to the store, commands are decided on an overlay. The state changes only
when the block is in the store, so a failed commit leaves the state unchanged. An engine that is the
only writer needs no overlay. During its commit the state is ahead of the ledger, and after a failed
commit the state is read again.

With an executor, a stop is two events: the order to stop, and the end of the work. After each
commit the engine sends the executor the orders that follow from the commit. If this program ends
before it has sent the orders of a commit, it sends them when it opens the ledger again.

If the caller wants reports of violations, the engine checks the invariants of all records that a
block changes, before it appends the block. After a violation the engine decides nothing more, and
does not record the block.

Conflicts that are due after a commit are settled in separate blocks, and rounds that are due begin
in separate blocks (``due_work.py``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from quorate.core.audit.commit_checks import check_touched
from quorate.core.commands import Change, Command, Decision
from quorate.core.decide import decide
from quorate.core.decision_log import GoOn, always
from quorate.core.preemption.lottery import CHAIN_LENGTH
from quorate.ledger.chain import (
    BLOCK_BYTES_MAX,
    GENESIS,
    Block,
    Head,
    open_block,
    open_blocks,
    seal,
)
from quorate.loop.block_draft import GROUP_BYTES_MAX, BlockDraft
from quorate.loop.commit_types import Asked, Breach, Made, OnViolation, Receipt
from quorate.loop.due_work import DueWork
from quorate.loop.orders import orders_of, standing_orders
from quorate.loop.preimages import Preimages
from quorate.loop.resolver_log import log_conflicts
from quorate.loop.seen_store import SeenStore
from quorate.loop.snapshots import CLOSE_S_MAX, Snapshots
from quorate.loop.state_loading import load_state
from quorate.model.events import (
    Event,
    LedgerOpened,
    LotteryCommitted,
    RequestKept,
)
from quorate.model.state.apply_event import apply_all
from quorate.model.state.read_only import read_only
from quorate.model.state.records import RequestRecord
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView
from quorate.ports.clock_port import Clock
from quorate.ports.errors import (
    DecidingStoppedError,
    LedgerEmptyError,
    NotLeaderError,
    OldTermError,
    QuorateError,
    StaleHeadError,
    StoreDownError,
)
from quorate.ports.executor_port import Executor, Order
from quorate.ports.lottery_seal_port import LotterySeal
from quorate.ports.store_port import EventStore, TurnStore

if TYPE_CHECKING:
    from quorate.loop.rounds.round_problem import PoolPolicy

_LOG = logging.getLogger(__name__)

SNAPSHOT_EVENTS: Final = 50_000
"""The default number of events from one snapshot to the next."""
TURN_AFTER_S: Final = 1.0
"""How long other writers may commit first before the engine asks the store to block them."""


class Engine:
    """Owns the state of a ledger; one thread uses the engine, one command or group at a time."""

    def __init__(  # noqa: PLR0913 - an engine has this many parts
        self,
        store: EventStore,
        clock: Clock,
        state: State,
        head: Head,
        executor: Executor | None = None,
        *,
        snapshot_seq: int = 0,
        lottery_secret: bytes | None = None,
        lottery_seal: LotterySeal | None = None,
    ) -> None:
        self.executor = executor
        self._due = DueWork(self, lottery_secret, lottery_seal)
        self._store = store
        self._clock = clock
        self._state = state
        self._view = read_only(state)
        self._head = head
        self._snapshot_seq = snapshot_seq
        self._snapshots = Snapshots(store)
        self.is_shared = store.is_shared
        self._turns = store if isinstance(store, TurnStore) else None
        # Whether the state is complete up to the head; False while a block is being applied.
        self._is_whole = True
        # Whether the store may have blocks after the head, because an append did not return.
        self._is_behind = False
        self.snapshot_events = SNAPSHOT_EVENTS
        self.group_bytes_max = GROUP_BYTES_MAX
        self.block_bytes_max = BLOCK_BYTES_MAX
        self.on_violation: OnViolation | None = None
        self.violated = self.deposed = ""
        self._term = 0
        self.clock_trouble: Callable[[], str] = lambda: ""

    @classmethod
    def open(  # noqa: PLR0913 - opening a ledger needs all of these
        cls,
        store: EventStore,
        clock: Clock,
        *,
        executor: Executor | None = None,
        lottery_secret: bytes | None = None,
        lottery_seal: LotterySeal | None = None,
        snapshot_events: int = SNAPSHOT_EVENTS,
    ) -> Self:
        """Return the engine of a ledger; its state is read from a snapshot and the log after it.

        The engine stores a snapshot when ``snapshot_events`` events were recorded since the last
        snapshot. The engine sends ``executor`` an order for every open lease and every stop that is
        under way. To settle a conflict that needs a draw, the engine needs ``lottery_secret``, or a
        ``lottery_seal`` that decrypts the secret in the ledger. If the engine has neither, the
        conflict stays open. Raises ``CorruptLedgerError`` if the log does not verify, and
        ``LedgerEmptyError`` if the ledger has no event.
        """
        state, head, snapshot_seq = load_state(store, snapshot_events)
        if head == GENESIS:
            raise LedgerEmptyError
        if executor is not None:
            executor.resume(standing_orders(state))
        engine = cls(
            store,
            clock,
            state,
            head,
            executor,
            snapshot_seq=snapshot_seq,
            lottery_secret=lottery_secret,
            lottery_seal=lottery_seal,
        )
        engine.snapshot_events = snapshot_events
        return engine

    @classmethod
    def create(  # noqa: PLR0913 - creating a ledger needs all of these
        cls,
        store: EventStore,
        clock: Clock,
        *,
        ledger_id: str,
        public_key: str,
        actor: str,
        executor: Executor | None = None,
        lottery_secret: bytes | None = None,
        lottery_length: int = CHAIN_LENGTH,
    ) -> Self:
        """Return the engine of a new ledger in the empty ``store``.

        With ``lottery_secret``, the first block publishes the start of a chain for
        ``lottery_length`` lotteries. Without a secret, no run can be drawn.
        """
        engine = cls(store, clock, State(), store.head(), executor, lottery_secret=lottery_secret)
        assert engine._head == GENESIS, engine._head
        at_ms = clock.now_ms()
        events: list[Event] = [
            LedgerOpened(at_ms=at_ms, actor=actor, ledger_id=ledger_id, public_key=public_key)
        ]
        if lottery_secret is not None:
            commitment = Preimages(lottery_secret, lottery_length).link(0).hex()
            events.append(
                LotteryCommitted(
                    at_ms=at_ms, actor=actor, commitment=commitment, length=lottery_length
                )
            )
        state = engine._state
        apply_all(state, events)
        engine._append(events, state)
        return engine

    @property
    def view(self) -> StateView:
        """The state as of the last commit, for reading."""
        if self._is_behind or not self._is_whole:
            self._recover()
        return self._view

    def taken_over(self, store: EventStore) -> Engine:
        """Return a read-only engine with this engine's state; do not use this engine afterwards.

        The log in ``store`` has this engine's log and perhaps more blocks. The new engine has not
        read these blocks yet.
        """
        return Engine(store, self._clock, self._state, self._head)

    @property
    def is_behind(self) -> bool:
        """Whether the engine must read the store before its next use: an append or apply failed."""
        return self._is_behind or not self._is_whole

    @property
    def is_whole(self) -> bool:
        """Whether the state is complete up to the head; False if a block was applied in part."""
        return self._is_whole

    def follow(self) -> int:
        """Apply the blocks that other writers have appended after this engine's head.

        Return the number of these blocks. The cost grows with this number, not with the length of
        the ledger. The executor gets the orders of these blocks. Raises ``CorruptLedgerError`` if
        the store no longer continues the ledger that was read before.
        """
        height = self._head.height
        self._reload_if_torn()
        self._read_on(self._store.blocks(from_height=self._head.height + 1))
        return self._followed(height)

    def _catch_up(self, stale: StaleHeadError) -> int:
        """Apply the blocks that ``stale`` reports as new; return how many there are.

        The error ``stale`` may contain some of these blocks. The remaining blocks are read from the
        store.
        """
        height = self._head.height
        self._reload_if_torn()
        if self._head == stale.expected:
            self._read_on(stale.blocks)
        if self._head != stale.actual:
            self._read_on(self._store.blocks(from_height=self._head.height + 1))
        return self._followed(height)

    def _read_on(self, blocks: Iterable[Block]) -> None:
        """Apply ``blocks``, which must continue the ledger at the engine's head."""
        for head, events in open_blocks(blocks, after=self._head, not_before_ms=self._state.at_ms):
            before = self._head
            self._is_whole = False
            apply_all(self._state, events)
            self._moved(events, head)
            self._check_recorded(before, events)

    def _followed(self, height: int) -> int:
        """Record that the state is at the store's head; return the number of new blocks."""
        self._is_behind = False
        if self.is_shared and self._head.height > height:
            self._maybe_snapshot()
        return self._head.height - height

    @property
    def store(self) -> EventStore:
        """The store of the ledger.

        If other programs write to the store, the store may have more blocks than the state.
        """
        return self._store

    @property
    def seen(self) -> EventStore:
        """The ledger for reading, up to this engine's head."""
        return SeenStore(self._store, lambda: self._head) if self.is_shared else self._store

    @property
    def head(self) -> Head:
        """The ledger's head."""
        return self._head

    def lead(self, term: int, executor: Executor | None) -> None:
        """Decide, and send orders to ``executor``, as the leader of ``term`` from now on.

        Without an executor, the engine reads the new blocks and then decides. With an executor, the
        engine sends its orders twice. After the first time the executor refuses orders of older
        terms. But the executor ends no work yet, because the previous leader may have recorded
        starts that this engine has not read. Then the engine reads the new blocks and sends its
        orders again. Now the executor ends all work that is not in the orders. Raises
        ``OldTermError`` if the executor has a newer leader; then this engine does not lead.
        """
        self.follow()
        if executor is not None:
            executor.resume(standing_orders(self._state), term=term, is_whole=False)
            self.follow()
            executor.resume(standing_orders(self._state), term=term)
        self.executor, self._term, self.deposed = executor, term, ""

    def step_down(self, why: str) -> None:
        """Decide nothing and send no orders until this engine leads again; callers see ``why``."""
        self.executor, self.deposed = None, why

    @property
    def halted(self) -> str:
        """Why this engine may not decide even as the leader; empty if it may.

        The reason is a broken invariant, or a clock that jumped.
        """
        return self.violated or self.clock_trouble()

    @property
    def stopped(self) -> str:
        """Why this engine is ``halted`` or has lost the lead; empty if it decides."""
        return self.halted or self.deposed

    @property
    def recorded_ms(self) -> int:
        """The time of the last event."""
        return self._state.at_ms

    def now_ms(self) -> int:
        """Return the time of a decision made now; this time never goes back."""
        return max(self._clock.now_ms(), self._state.at_ms)

    def execute(
        self, command: Command, *, actor: str, go_on: GoOn = always, made: Made | None = None
    ) -> Receipt:
        """Decide and commit one command.

        Raises ``DecisionCutError`` if ``go_on`` returns False. Raises the error of ``made`` if
        another writer committed first and the command is no longer allowed. In both cases nothing
        is recorded.
        """
        (receipt,) = self.execute_group([Asked(command, actor, go_on, made)])
        if receipt.denied is not None:
            raise receipt.denied
        return receipt

    def execute_all(self, commands: Sequence[Command], *, actor: str) -> list[Receipt]:
        """Decide ``commands`` in order and commit them, as one block if they fit into one block.

        If the commands need several blocks and one block fails, the blocks before it stay recorded.
        See ``execute_group``.
        """
        asked = [Asked(command, actor) for command in commands]
        receipts: list[Receipt] = []
        while len(receipts) < len(asked):
            receipts += self.execute_group(asked[len(receipts) :])
        return receipts

    def execute_group(self, asked: Sequence[Asked], go_on: GoOn = always) -> list[Receipt]:
        """Decide the commands ``asked`` in order; return when they are durable, as one block.

        When ``go_on`` returns False, or the block is full, the commands decided so far (at least
        one) are committed. Later commands are not decided and have no receipt.

        A refused command records nothing; the other commands are recorded all the same. Raises a
        ``StoreError`` if the block cannot be committed; then none of the commands is recorded.
        Conflicts that are due are settled after the block. If every command was refused or repeats
        an earlier request, nothing is recorded and no conflict is settled.
        """
        receipts = self.commit_group(asked, go_on)
        if any(
            not each.decision.refusals and each.decision.repeats is None and each.denied is None
            for each in receipts
        ):
            self.settle_due()
        return receipts

    def execute_block(self, commands: Sequence[Command], *, actor: str) -> list[Receipt]:
        """Decide and commit one block as ``commit_group`` does, with one actor for all commands."""
        return self.commit_group([Asked(command, actor) for command in commands])

    def commit_group(self, asked: Sequence[Asked], go_on: GoOn = always) -> list[Receipt]:
        """Decide and commit one block, without settling conflicts that are due.

        The block has the events of the commands for which a receipt is returned; see
        ``execute_group``.

        If another writer committed first, its blocks are applied and the commands are decided again
        on the state after them. After ``TURN_AFTER_S`` of lost attempts the engine asks the store
        for its turn, so that no other writer can commit first.

        Raises ``StaleHeadError`` if the store refuses the block although the store has no other
        block after this engine's head. Raises ``NotLeaderError`` if the store accepts only the
        blocks of another leader. Afterwards nothing is decided until this engine leads. Raises
        ``BlockTooLargeError`` if the events of the first command do not fit into a block, and
        ``DecidingStoppedError`` while deciding is stopped.
        """
        self._check_decides()
        self._recover()
        began_s = time.monotonic()
        try:
            while True:
                receipts = self._raced(asked, go_on)
                if receipts is not None:
                    return receipts
                if time.monotonic() - began_s >= TURN_AFTER_S:
                    self._take_turn()
        finally:
            if self._turns is not None:
                self._turns.end_turn()

    def _raced(self, asked: Sequence[Asked], go_on: GoOn) -> list[Receipt] | None:
        """Decide and commit once; return None if another writer committed first."""
        try:
            receipts = self._attempt(asked, go_on)
            if self.is_shared and not any(each.decision.events for each in receipts):
                self._check_is_at_end()
        except StaleHeadError as stale:
            blocks = self._catch_up(stale)
            if not blocks:
                raise
            _LOG.info("another writer committed %d blocks first; deciding again", blocks)
            self._check_decides()
            return None
        return receipts

    def _take_turn(self) -> None:
        """Wait until the store blocks other writers, and read the blocks that they appended."""
        if self._turns is not None:
            self._turns.take_turn()
            self.follow()
            self._check_decides()

    def _check_decides(self) -> None:
        """Raise ``DecidingStoppedError`` if deciding is stopped."""
        if self.stopped:
            raise DecidingStoppedError(self.stopped)

    def _attempt(self, asked: Sequence[Asked], go_on: GoOn) -> list[Receipt]:
        """Decide at the engine's head, append the block, and then apply the decided events."""
        draft = BlockDraft(self._state, self.group_bytes_max, self.block_bytes_max)
        try:
            for each in [each.at_head(self._head) for each in asked]:
                if draft.decided and not go_on():
                    break
                if each.denied is not None:
                    draft.deny(each.denied)
                    continue
                decision = self._decide(draft.ahead, each.command, each.actor, go_on=each.go_on)
                encoded = draft.room_for(decision.events)
                if encoded is None:
                    break
                if decision.events and not self.is_shared:
                    self._is_whole = False
                draft.add(decision, encoded, is_apart=self.is_shared)
                self._check_draft(draft, decision.events)
            if draft.events:
                self._append(draft.events, draft.ahead, draft.encoded)
        except StaleHeadError:
            raise
        except BaseException as error:
            if isinstance(error, NotLeaderError):
                self.step_down(str(error))
            self._try_to_recover(error)
            raise
        self._maybe_snapshot()
        return draft.receipts(self._head)

    def _check_is_at_end(self) -> None:
        """Raise ``StaleHeadError`` if the store has blocks after the engine's head.

        An append detects blocks after the engine's head by itself. A response without an append,
        such as a refusal, must be true at the store's head as well. Another writer may have
        committed a block that changes the response.
        """
        actual = self._store.head()
        if actual != self._head:
            raise StaleHeadError(expected=self._head, actual=actual)

    def _check_draft(self, draft: BlockDraft, events: Sequence[Event]) -> None:
        """Stop deciding if ``events``, the last events of ``draft``, break an invariant.

        If an invariant is broken, raises ``DecidingStoppedError``, so that the block is not
        recorded. Each decision is checked right after it was applied, while its records are in the
        processor's cache. A check of the whole block would have to fetch all these records again.
        """
        if self.on_violation is None:
            return
        violations = check_touched(draft.ahead, events)
        if violations:
            self.violated = self.on_violation(
                Breach(
                    head=self._head, events=draft.events, violations=violations, is_recorded=False
                )
            )
            raise DecidingStoppedError(self.violated)

    def _check_recorded(self, head: Head, events: Sequence[Event]) -> None:
        """Stop deciding if another writer's ``events`` after ``head`` break an invariant."""
        if self.on_violation is None:
            return
        violations = check_touched(self._state, events)
        if violations:
            self.violated = self.on_violation(
                Breach(head=head, events=events, violations=violations, is_recorded=True)
            )

    def answer_kept(self, record: RequestRecord) -> Receipt:
        """Return the receipt of the request in ``record``, read back from the store.

        The receipt equals the first receipt of the request, which the caller may not have received.
        Raises ``CorruptLedgerError`` if the block of the request cannot be read.
        """
        height = self._store.height_at(record.seq)
        block = next(self._store.blocks(from_height=height))
        before = Head(height=height - 1, seq=block.first_seq - 1, hash=block.prev_hash)
        first_seq = record.seq - record.count
        start, end = first_seq - block.first_seq, record.seq - block.first_seq + 1
        events = tuple(open_block(block, after=before)[start:end])
        assert isinstance(events[-1], RequestKept), (record, events[-1])
        changes = tuple((kind, name, Change(change)) for kind, name, change in record.changes)
        return Receipt(Decision(events, (), changes, record.warnings), block.head, first_seq)

    def settle_due(self) -> None:
        """Settle every conflict that is due, each in a separate block, and begin the due rounds.

        A conflict that cannot be settled stays open, and is tried again after the next commit.
        """
        self._due.settle()

    @property
    def round_waits(self) -> Mapping[str, int]:
        """The pools whose round could not begin, each with the instant of the next attempt."""
        return self._due.round_waits

    @property
    def policies(self) -> Mapping[str, PoolPolicy] | None:
        """The policies that pools may share by; None means all installed policies."""
        return self._due.policies

    @policies.setter
    def policies(self, policies: Mapping[str, PoolPolicy] | None) -> None:
        self._due.policies = policies

    def _recover(self) -> None:
        """Make the state equal to the recorded state, if an append or an apply failed.

        If recovery fails, the next use of the engine tries recovery again first.
        """
        self._reload_if_torn()
        if self._is_behind:
            self.follow()

    def _try_to_recover(self, failed: BaseException) -> None:
        """Recover after a commit that ``failed``; if recovery fails, the next use tries it again.

        The block may be in the store although the commit failed. In that case the block's orders
        are sent. If the store did not answer, the store is read only at the next use, so that the
        caller does not wait for the store twice.
        """
        if isinstance(failed, StoreDownError):
            return
        try:
            self._recover()
        except QuorateError as error:
            _LOG.warning("whether the last block was recorded is not known yet: %s", error)

    def _reload_if_torn(self) -> None:
        """Read the state again from the store, if a block was applied to the state only in part."""
        if not self._is_whole:
            # Without this wait, a run that is being archived would be found neither in memory nor
            # in the archive.
            self.wait_for_snapshot()
            self._state, self._head, _ = load_state(self._store, self.snapshot_events)
            self._view = read_only(self._state)
            self._is_whole = True
            if self.executor is not None:
                # The executor may not have received the orders of a committed block.
                orders = standing_orders(self._state)
                self.executor.resume(orders, term=self._term, is_whole=not self.is_shared)

    def try_out(self, command: Command, *, actor: str, has_executor: bool = False) -> Decision:
        """Return the decision of ``command`` now; nothing is written and nothing changes.

        ``has_executor`` is true if another engine's executor runs the work, and this engine only
        reads.
        """
        self._recover()
        return self._decide(self._state, command, actor, has_executor=has_executor)

    def _decide(
        self,
        state: State,
        command: Command,
        actor: str,
        *,
        has_executor: bool = False,
        go_on: GoOn = always,
    ) -> Decision:
        return decide(
            state,
            command,
            now_ms=self.now_ms(),
            actor=actor,
            has_executor=has_executor or self.executor is not None,
            go_on=go_on,
        )

    def close(self, within_s: float = CLOSE_S_MAX) -> None:
        """Close the store; wait up to ``within_s`` seconds for a snapshot that is being written.

        After that time the snapshot is lost, because a closed store writes nothing.
        """
        if not self._snapshots.wait(within_s):
            _LOG.warning(
                "the snapshot that is being written is given up after %g s; the next start reads "
                "more of the log",
                within_s,
            )
        self._store.close()

    def wait_for_snapshot(self, within_s: float | None = None) -> None:
        """Wait for a snapshot that is being written, if there is one."""
        self._snapshots.wait(within_s)

    def write_snapshots_beside(self) -> None:
        """Write snapshots on a separate thread from now on."""
        self._snapshots.is_beside = True

    def _append(self, events: Sequence[Event], ahead: State, encoded: bytes = b"") -> None:
        """Record ``events`` as one block after the head, and move the state to the new head.

        ``ahead`` is the state including these events: an overlay, or the engine's own state.
        ``encoded`` are the events as bytes, if the caller has them.
        """
        block = seal(self._head, events, encoded)
        self._is_behind = True
        self._store.append(block, expected=self._head)
        self._is_behind = False
        if ahead is not self._state:
            self._is_whole = False
            apply_all(self._state, events)
        self._moved(events, block.head)

    def _moved(self, events: Sequence[Event], head: Head) -> None:
        """Record that ``events`` moved the state to ``head``, and send the executor's orders."""
        self._head = head
        self._is_whole = True
        if self.executor is not None:
            self._send(self.executor, orders_of(self._state, events))
        log_conflicts(self._state, events)

    def _send(self, executor: Executor, orders: Sequence[Order]) -> None:
        """Send ``orders``, whose events are recorded.

        If the executor refuses the orders, there is a newer leader, which sends the orders itself.
        This engine then steps down.
        """
        if not orders:
            return
        try:
            executor.carry_out(orders, term=self._term)
        except OldTermError as error:
            _LOG.warning("another service leads now: %s", error)
            self.step_down(str(error))

    def _maybe_snapshot(self) -> None:
        snapshots = self._snapshots
        # A snapshot that is still being written is checked again after a later commit.
        if not snapshots.settle() or self._state.seq - self._snapshot_seq < self.snapshot_events:
            return
        self._snapshot_seq = self._state.seq
        snapshots.begin(self._state, self._head)
