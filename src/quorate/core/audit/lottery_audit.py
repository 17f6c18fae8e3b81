"""The audit of the lotteries of a whole history (invariant I9), which keeps its own records.

``lottery.check_draws`` checks the two events of one conflict: its declaration and its resolution.
This module checks the rules that need the whole history:

- The links of the committed chain are revealed in order, each for one lottery.
- The tokens match the submitted runs.
- Only a run that was drawn loses a lease to the lottery.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from quorate.core.admission.run_shape import Violation
from quorate.core.preemption.lottery import check_draws, link_of
from quorate.model.events import (
    ConflictDeclared,
    ConflictResolved,
    CutStep,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    LotteryCommitted,
    LotterySealed,
    RunSubmitted,
)


@dataclass(slots=True)
class Lotteries:
    """The records: call ``enter`` with every event of a ledger in order.

    ``_public`` is the last revealed link of the chain, in hex, and ``_revealed`` is the number of
    this link. Several conflicts may be open at the same time, but only one lottery may use a link.
    If another conflict has revealed the link of a conflict, no draw follows, and the conflict has
    to be declared again.
    """

    _public: str | None = None
    _revealed: int = 0
    _length: int = 0
    _committed: str = ""
    _is_sealed: bool = False
    _next: LotterySealed | None = None
    _submitted: dict[str, tuple[str, str]] = field(default_factory=dict)
    _run_of: dict[str, str] = field(default_factory=dict)
    _open: dict[str, ConflictDeclared] = field(default_factory=dict)
    _settled: set[str] = field(default_factory=set)
    _seeds: dict[str, str] = field(default_factory=dict)

    def enter(self, event: Event) -> Iterator[Violation]:
        """Record ``event``, and yield its violations."""
        match event:
            case LotteryCommitted():
                yield from self._commit(event)
            case LotterySealed():
                yield from self._seal(event)
            case RunSubmitted(run=run):
                self._submitted[run.name] = (run.owner, run.nonce)
            case LeaseStarted():
                self._run_of[event.lease] = event.run
            case ConflictDeclared():
                yield from self._declare(event)
            case ConflictResolved():
                yield from self._resolve(event)
            case LeaseEnding() | LeaseEnded():
                yield from self._stop(event)
            case _:
                return

    def _commit(self, event: LotteryCommitted) -> Iterator[Violation]:
        if link_of(event.commitment) is None or event.length < 1:
            yield Violation("I9", "a lottery chain", "has no link or no length")
        if self._revealed < self._length:
            # Without this rule, an operator who knows the tokens could begin a new chain, chosen so
            # that it draws the tokens that the operator wants.
            text = (
                f"begins when only {self._revealed} of {self._length} links of the previous "
                "chain are used"
            )
            yield Violation("I9", "a lottery chain", text)
        self._begin(event)

    def _begin(self, chain: LotteryCommitted | LotterySealed) -> None:
        self._public = self._committed = chain.commitment
        self._revealed, self._length = 0, chain.length
        self._is_sealed, self._next = isinstance(chain, LotterySealed), None

    def _seal(self, event: LotterySealed) -> Iterator[Violation]:
        """Yield a violation if a chain is sealed twice, or committed too late or too early."""
        if event.commitment == self._committed:
            if self._is_sealed or event.length != self._length:
                yield Violation("I9", "a lottery chain", "is sealed twice, or with another length")
            self._is_sealed = True
            return
        if link_of(event.commitment) is None or event.length < 1:
            yield Violation("I9", "a lottery chain", "has no link or no length")
        if self._next is not None:
            yield Violation("I9", "a lottery chain", "is committed while another one waits")
        if self._revealed >= self._length:
            # An operator who commits a chain this late already knows the tokens of the lottery for
            # which the chain will be used.
            yield Violation(
                "I9", "a lottery chain", "is committed only when the previous chain is used up"
            )
        self._next = event

    def _declare(self, declared: ConflictDeclared) -> Iterator[Violation]:
        name = declared.conflict
        if name in self._open or name in self._settled:
            yield Violation("I9", name, "is declared a second time")
        if self._public is None:
            yield Violation("I9", name, "is declared before any lottery chain was committed")
        elif declared.commitment != self._public:
            yield Violation("I9", name, "does not name the last public link as its commitment")
        if declared.preimage_index != self._revealed + 1 or self._revealed >= self._length:
            text = (
                f"names link {declared.preimage_index}, but {self._revealed} of {self._length} "
                "links are revealed"
            )
            yield Violation("I9", name, text)
        for token in declared.tokens:
            if self._submitted.get(token.run) != (token.owner, token.nonce):
                text = f"has a token of {token.run} with another owner or another nonce"
                yield Violation("I9", name, text)
        self._open[name] = declared

    def _resolve(self, resolved: ConflictResolved) -> Iterator[Violation]:
        name = resolved.conflict
        declared = self._open.pop(name, None)
        if declared is None:
            yield Violation("I9", name, "is resolved, but was not open")
            return
        self._settled.add(name)
        for fault in check_draws(declared, resolved):
            yield Violation("I9", name, fault)
        for cut in resolved.cuts:
            if cut.step is CutStep.LOTTERY:
                self._seeds.update((lease, resolved.seed) for lease in cut.leases)
                if any(self._run_of.get(lease) != cut.run for lease in cut.leases):
                    yield Violation("I9", name, f"cuts a lease that is not one of {cut.run}")
        if resolved.draws:
            if declared.commitment != self._public:
                yield Violation("I9", name, "draws by a link that another lottery has used")
                return
            self._public, self._revealed = resolved.preimage, self._revealed + 1
            if self._next is not None and self._revealed == self._length:
                self._begin(self._next)

    def _stop(self, event: LeaseEnding | LeaseEnded) -> Iterator[Violation]:
        if event.reason is EndReason.RANDOM_PREEMPT:
            seed = self._seeds.get(event.lease)
            if seed is None:
                yield Violation("I9", event.lease, "is preempted at random, but was not drawn")
            elif seed not in event.detail:
                yield Violation("I9", event.lease, f"does not name the seed that drew it, {seed}")
        if isinstance(event, LeaseEnded):
            self._run_of.pop(event.lease, None)
            self._seeds.pop(event.lease, None)
