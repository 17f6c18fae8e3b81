"""Due work after a commit: conflicts to settle, and rounds of pools to begin.

Each settlement and each round is committed as a separate block. An engine that has the lottery's
secret settles a conflict only after the block that declared the conflict is durable. So no owner
knows the next link of the lottery's chain before the entrants of the lottery are fixed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from quorate.core.commands import Draw
from quorate.core.rounds.begin_round import rounds_due
from quorate.ledger.chain import Head
from quorate.ledger.fold import collector_paused
from quorate.loop.chain_secrets import ChainSecrets
from quorate.loop.commit_types import Asked, Made, Receipt
from quorate.loop.rounds.round_waits import RoundWaits
from quorate.model.events import ConflictDeclared
from quorate.model.refusal import sentence
from quorate.model.state.state_view import StateView
from quorate.policy.parts import install_text, missing_part
from quorate.ports.errors import QuorateError
from quorate.ports.executor_port import Executor
from quorate.ports.lottery_seal_port import LotterySeal

if TYPE_CHECKING:
    from quorate.core.commands import Command
    from quorate.loop.rounds.kept_answers import KeptAnswers
    from quorate.loop.rounds.round_problem import PoolPolicy

_LOG = logging.getLogger(__name__)

DRAWS_MAX: Final = 1_000
"""How many conflicts are settled after one commit; further conflicts wait for the next commit."""
DRAW_ACTOR: Final = "lottery"
"""The actor that settles conflicts."""
ROUND_ACTOR: Final = "rounds"
"""The actor that begins the rounds of pools."""


class Committing(Protocol):
    """The part of an engine that due work needs."""

    executor: Executor | None
    is_shared: bool

    @property
    def view(self) -> StateView:
        """The state as of the last commit."""
        ...

    @property
    def head(self) -> Head:
        """The ledger's head."""
        ...

    def now_ms(self) -> int:
        """Return the time that a decision would have now."""
        ...

    def commit_group(self, asked: Sequence[Asked]) -> list[Receipt]:
        """Decide and commit one block."""
        ...


class DueWork:
    """Carries out the due work of one engine.

    A conflict with runs in the lottery is settled by a draw, which needs the secret of the
    lottery's present chain. Without this secret, such a conflict stays open.
    """

    def __init__(
        self, engine: Committing, lottery_secret: bytes | None, seal: LotterySeal | None
    ) -> None:
        self._engine = engine
        self._secrets = ChainSecrets(lottery_secret, seal)
        self.policies: Mapping[str, PoolPolicy] | None = None
        self._waits = RoundWaits()
        self._answers: KeptAnswers | None = None

    def settle(self) -> None:
        """Settle every conflict that is due, and begin every round that is due.

        Raises no ``QuorateError``: the caller's own commands are recorded already, and an error of
        due work must not look like an error of these commands. Work that fails is due again after
        the next commit.
        """
        try:
            if self._engine.view.open_conflicts:
                self._draw_due()
            if self._secrets.can_seal:
                self._seal_due()
            if self._engine.view.in_rounds:
                self._share_out_due()
        except QuorateError as error:
            # If the store did not answer the last append, reading ``view`` first asks the store
            # whether the block is recorded. This may fail.
            _LOG.warning("due work waits until the ledger can be read: %s", error)

    @property
    def round_waits(self) -> Mapping[str, int]:
        """The pools whose round could not begin, each with the instant of the next attempt."""
        return self._waits.until_ms

    # --- Rounds ---

    def _share_out_due(self) -> None:
        """Begin the next round of every pool whose last round is over, each in a separate block.

        A pool whose round cannot begin is tried again after a delay.
        """
        now_ms, waits = self._engine.now_ms(), self._waits
        dues = [
            (max(ms, self.round_waits.get(pool, 0)), pool)
            for ms, pool in rounds_due(self._engine.view)
        ]
        due = [pool for due_ms, pool in dues if due_ms <= now_ms]
        if not due:
            return
        missing = missing_part()
        if missing is not None:
            _LOG.warning("no round can begin: %s", install_text(missing))
            for pool in due:
                waits.failed(pool, now_ms)
            return
        for pool in due:
            if self._begin_round(pool):
                waits.began(pool)
            else:
                waits.failed(pool, now_ms)

    def _begin_round(self, pool: str) -> bool:
        """Begin the next round of ``pool``; return whether it has begun, and log why if not."""
        head = self._engine.head
        try:
            command = self._round(pool)
        except Exception:  # noqa: BLE001 - a bug here must not end the service or stop other pools
            _LOG.exception("the next round of pool %s could not be made", pool)
            return False
        # If other writers change the state in the meantime, the round is computed again.
        made = Made(head, lambda: self._round(pool))
        try:
            with collector_paused():
                (receipt,) = self._engine.commit_group([Asked(command, ROUND_ACTOR, made=made)])
        except QuorateError as error:
            _LOG.warning("the next round of pool %s has not begun: %s", pool, error)
            return False
        if receipt.denied is not None:
            _LOG.error("the next round of pool %s could not be made", pool, exc_info=receipt.denied)
        for refusal in receipt.decision.refusals:
            _LOG.warning("round of pool %s: %s", pool, sentence(refusal))
        return receipt.denied is None and not receipt.decision.refusals

    def _round(self, pool: str) -> Command:
        """Return the command that begins the next round of ``pool`` at the engine's head."""
        # Policies need numpy. An installation without a pool of rounds must not wait for the import
        # of numpy.
        from quorate.loop.rounds import kept_answers  # noqa: PLC0415 - slow import
        from quorate.loop.rounds.round_loop import share_out  # noqa: PLC0415 - slow import

        if self._answers is None:
            self._answers = kept_answers.KeptAnswers()
        self._answers.policies = self.policies
        engine = self._engine
        view, executor = engine.view, engine.executor
        runs = [name for name, member in view.in_rounds.items() if member.pool == pool]
        steps = {} if executor is None else executor.steps(runs)
        with collector_paused():
            return share_out(view, pool, engine.now_ms(), steps, self._answers)

    # --- Conflicts ---

    def _draw_due(self) -> None:
        for _ in range(DRAWS_MAX):
            declared = self._next_due()
            if declared is None:
                return
            draw = Draw(declared.conflict, self._link_of(declared))
            try:
                (receipt,) = self._engine.commit_group([Asked(draw, DRAW_ACTOR)])
            except QuorateError as error:
                # The caller's commands are committed, and the conflict is tried again after the
                # next commit.
                _LOG.warning("conflict %s is not settled yet: %s", declared.conflict, error)
                return
            if receipt.decision.refusals:
                _LOG.info("conflict %s was settled by another writer", declared.conflict)

    def _link_of(self, declared: ConflictDeclared) -> str:
        """Return the chain's link, in hex, that draws a run; empty if no run is in the lottery."""
        if not declared.tokens:
            return ""
        links = self._secrets.links(self._engine.view.lottery)
        assert links is not None, "a conflict is due, but this engine has no chain of the lottery"
        return links.link(declared.preimage_index).hex()

    def _next_due(self) -> ConflictDeclared | None:
        """Return the first conflict that is due and that this engine can settle."""
        view = self._engine.view
        now_ms = self._engine.now_ms()
        for name in view.open_conflicts:
            declared = view.conflicts[name].declared
            if declared.due_ms <= now_ms and (
                not declared.tokens or self._secrets.links(view.lottery) is not None
            ):
                return declared
        return None

    # --- Chains of the lottery ---

    def _seal_due(self) -> None:
        """Record the encrypted secret of the lottery's present chain, or the next chain, if due.

        If a ledger has only one writer, the secret of its first chain is in a file. So only later
        chains are recorded in that ledger.
        """
        chain = self._secrets.due(self._engine.view.lottery, is_shared=self._engine.is_shared)
        if chain is None:
            return
        try:
            (receipt,) = self._engine.commit_group([Asked(chain, DRAW_ACTOR)])
        except QuorateError as error:
            _LOG.warning("the lottery's chain is not sealed yet: %s", error)
            return
        for refusal in receipt.decision.refusals:
            _LOG.info("the lottery's chain was sealed by another writer: %s", sentence(refusal))
