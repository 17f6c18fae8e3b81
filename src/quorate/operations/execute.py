"""Carries out orders on the ledger, or tries them in a dry run, and returns the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from quorate.core.commands import (
    Apply,
    Command,
    CreateOwner,
    Decision,
    Draw,
    Keyed,
    Remove,
    RemoveOwner,
    Tick,
    UpdateOwner,
)
from quorate.core.decide import decide
from quorate.core.decision_log import DecisionCutError
from quorate.core.explain.change_effect import Effect, Picture, effect_between
from quorate.ledger.chain import Head, open_blocks
from quorate.loop.commit_types import Made, Receipt
from quorate.loop.due_work import DRAW_ACTOR, ROUND_ACTOR
from quorate.loop.engine import Engine
from quorate.model.closed_words import counted
from quorate.model.events import Event, NodeMarked, RequestKept
from quorate.model.specs import Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Lease
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView
from quorate.operations.answer_types import Answer, Order
from quorate.operations.batch_bounds import too_long
from quorate.operations.request_context import RequestContext
from quorate.operations.request_keys import plain
from quorate.operations.visibility import seen_by
from quorate.operations.visible_events import Sight
from quorate.views.failures import refused
from quorate.views.redaction.redacted_answers import redacted_effect
from quorate.views.runs.effect_view import effect_lines, effect_tree
from quorate.views.runs.instant import Moment
from quorate.views.runs.outcome_view import (
    outcome_lines,
    outcome_tree,
    receipt_line,
    recorded_at,
    recorded_line,
)
from quorate.views.runs.run_history import touched


def carry_out(
    context: RequestContext, order: Order, again: Callable[[], Order], *, dry_run: bool
) -> Answer:
    """Carry out ``order`` and return the result; if ``dry_run``, only try the order.

    If another writer committed first, ``again`` is called to make the order again at the engine's
    new head. Raises ``CommandError`` if the order is refused; nothing was recorded then.
    """
    engine, actor = context.engine, context.caller.actor
    prior = _Prior.of(context, order)
    head: Head | None = None
    if dry_run:
        command = plain(order.command)
        decision = engine.try_out(command, actor=actor, has_executor=context.has_executor)
    else:

        def make_again() -> Command:
            nonlocal order, prior
            order = again()
            prior = _Prior.of(context, order)
            return order.command

        made = Made(engine.head, make_again)
        try:
            receipt = engine.execute(order.command, actor=actor, go_on=context.go_on, made=made)
        except DecisionCutError as error:
            raise too_long(plain(order.command), error.started) from None
        decision, head = receipt.decision, receipt.head
        if decision.repeats is not None:
            kept = engine.answer_kept(decision.repeats)
            return recorded_answer(kept, Sight(engine.view, context.caller), is_repeated=True)
        if not isinstance(order.command, Keyed):
            # The caller also gets the conflicts that were settled after the order. A request with a
            # key does not get these, because a repetition is answered only from the events of the
            # first request.
            decision, head = _with_settled(engine, decision, head)
    if decision.refusals:
        redaction = Sight(engine.view, context.caller).redaction
        raise refused([redaction.refusal(each) for each in decision.refusals])
    moment, events = _moment(context, decision, head)
    effect = None
    if prior.picture is not None:
        after = Picture.of(moment.view, moment.now_ms)
        effect = effect_between(prior.picture, after, moment.view, events)
    sight = Sight(moment.view, context.caller)
    return _Outcome(order, decision, prior.head, head, moment, prior.leases, effect, sight).answer()


def recorded_answer(
    receipt: Receipt, sight: Sight, *, is_repeated: bool = False, notes: tuple[str, ...] = ()
) -> Answer:
    """Return the answer to a command from its ``receipt`` alone. Any process may have committed it.

    ``notes`` are the notes on the request. Raises ``CommandError`` if the command was refused.
    """
    decision, head, first = receipt.decision, receipt.head, receipt.first_seq
    if decision.refusals:
        raise refused([sight.redaction.refusal(each) for each in decision.refusals])
    done = recorded_at(head, first, len(decision.events))
    again = "note: this request was carried out before; its first answer is shown again"
    return Answer(
        tree=lambda: _shown_tree(decision, head, first - 1, sight),
        lines=lambda _: [
            *(f"{kind.lower()}/{name} {change}" for kind, name, change in decision.changes),
            done,
            *([receipt_line(head)] if decision.events else []),
        ],
        notes=(
            *([again] if is_repeated else []),
            *notes,
            *(f"warning: {warning}" for warning in sight.warnings(decision)),
        ),
        done=done if decision.events else "",
    )


@dataclass(frozen=True, slots=True)
class _Leases:
    """The leases that were open before an order, and which of these were stopping.

    A commit changes the records of leases in place. Only leases that are shown are restored to
    their former state.
    """

    open: Mapping[str, Lease]
    stopping: frozenset[str]

    @classmethod
    def of(cls, view: StateView) -> _Leases:
        leases = dict(view.leases)
        stopping = [name for name, lease in leases.items() if lease.ending is not None]
        return cls(leases, frozenset(stopping))

    def touched_by(self, events: Sequence[Event]) -> dict[str, Lease]:
        """Return the leases of the runs that ``events`` are about, as they were before the order.

        If one of ``events`` changes the status of a node, return all leases.
        """
        names: Iterable[str] = self.open
        if not any(isinstance(event, NodeMarked) for event in events):
            # A lease's name begins with its run's name, which has no slash.
            prefixes = tuple(f"{run}/" for run in touched(events))
            names = [name for name in self.open if name.startswith(prefixes)]
        return {name: self._as_it_was(name, self.open[name]) for name in names}

    def _as_it_was(self, name: str, lease: Lease) -> Lease:
        if lease.ending is None or name in self.stopping:
            return lease
        before = lease.copy()
        before.ending = None
        return before


@dataclass(frozen=True, slots=True)
class _Prior:
    """The state before an order: the head, the leases, and a picture of the runs.

    ``picture`` is None if the effect of the order on runs will not be shown.
    """

    head: Head
    leases: _Leases
    picture: Picture | None

    @classmethod
    def of(cls, context: RequestContext, order: Order) -> _Prior:
        engine, picture = context.engine, None
        leases = _Leases.of(engine.view)
        if _changes_others(plain(order.command)):
            actor, has_executor = context.caller.actor, context.has_executor
            picture = _picture(engine, actor, has_executor=has_executor)
        return cls(engine.head, leases, picture)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The result of an order; ``head`` is None for a dry run."""

    order: Order
    decision: Decision
    before: Head
    head: Head | None
    moment: Moment
    leases: _Leases
    effect: Effect | None
    sight: Sight

    def answer(self) -> Answer:
        count = 0 if self.head is None else len(self.decision.events)
        return Answer(
            tree=self._tree,
            lines=self._lines,
            notes=(
                *self.order.notes,
                *(f"warning: {warning}" for warning in self.sight.warnings(self.decision)),
            ),
            done=self._recorded() if count else "",
        )

    def _recorded(self) -> str:
        if self.head is None:
            return f"dry run: {counted(len(self.decision.events), 'event')}, nothing was recorded"
        blocks = self.head.height - self.before.height
        return recorded_line(self.head, len(self.decision.events), blocks)

    def _tree(self) -> dict[str, Any]:
        tree = _shown_tree(self.decision, self.head, self.before.seq, self.sight)
        aside = self.order.aside
        tree |= {} if aside is None else aside.tree(self.moment)
        if self.effect is None or (self.head is not None and isinstance(self.order.command, Keyed)):
            # A repeated request must get the same answer, but the effect on runs cannot be computed
            # again later.
            return tree
        effect, others = redacted_effect(self.effect, self.sight.redaction)
        return tree | {"effect": effect_tree(effect) | ({"others": others} if others else {})}

    def _lines(self, wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        """Return the changes of the named resources, then the effects on runs, then the receipt."""
        del wide
        is_dry = self.head is None
        decision, others = _shown(self.decision, self.sight)
        before = self.leases.touched_by(decision.events)
        lines = outcome_lines(decision, self.moment, before, dry_run=is_dry)
        named, aside = len(self.decision.changes), self.order.aside
        between = [] if aside is None else aside.lines(self.moment)
        same = self.order.unchanged
        return [
            *([same] if same and not self.decision.events else []),
            *lines[:named],
            *between,
            *lines[named:],
            *([] if others == 0 else [f"and {counted(others, 'change')} to runs of other owners"]),
            *([] if self.effect is None else self._effect_lines(self.effect)),
            self._recorded(),
            *([receipt_line(self.head)] if self.head is not None and self.decision.events else []),
        ]

    def _effect_lines(self, effect: Effect) -> list[str]:
        told, others = redacted_effect(effect, self.sight.redaction)
        more = [f"effect on others: {counted(others, 'change')}"] if others else []
        return [*effect_lines(told), *more]


def _shown(decision: Decision, sight: Sight) -> tuple[Decision, int]:
    """Return ``decision`` with only the events that the caller may see; count the hidden events.

    The event ``request-kept`` is not counted as hidden, because it records the caller's own
    request.
    """
    seen = [event for event in decision.events if sight.sees(event)]
    others = sum(
        not isinstance(event, RequestKept) for event in decision.events if not sight.sees(event)
    )
    shown = replace(
        decision, events=tuple(map(sight.told, seen)), warnings=sight.warnings(decision)
    )
    return shown, others


def _shown_tree(decision: Decision, head: Head | None, seq: int, sight: Sight) -> dict[str, Any]:
    """Return ``decision`` as a tree with the events that the caller may see; count the others.

    The first event of ``decision`` has the sequence number ``seq`` + 1.
    """
    shown, others = _shown(decision, sight)
    numbers = (n for n, event in enumerate(decision.events, seq + 1) if sight.sees(event))
    tree = outcome_tree(shown, head, list(zip(numbers, shown.events, strict=True)))
    return tree | ({"otherEvents": others} if others else {})


def _changes_others(command: Command) -> bool:
    """Return whether ``command`` may affect runs. If so, its effect on runs is shown."""
    if isinstance(command, Apply):
        return not all(isinstance(spec, Run) for spec in command.specs)
    return isinstance(command, CreateOwner | UpdateOwner | RemoveOwner | Remove)


def _picture(engine: Engine, actor: str, *, has_executor: bool) -> Picture:
    """Return a ``Picture`` of the state, with all changes that are due by now."""
    settled = engine.view.overlay()
    due = engine.try_out(Tick(), actor=actor, has_executor=has_executor)
    apply_all(settled, due.events)
    _settle(settled)
    return Picture.of(settled, engine.now_ms())


def _with_settled(engine: Engine, decision: Decision, head: Head) -> tuple[Decision, Head]:
    """Return ``decision``, recorded at ``head``, with the events that the engine recorded after it.

    The engine settles due conflicts and begins due rounds in separate blocks after the decision, so
    that no draw can be known before its conflict is recorded. The events of these blocks are a part
    of the caller's result. The returned head is the head after the last of these blocks.
    """
    if engine.head == head:
        return decision, head
    events = decision.events
    for after, block in open_blocks(engine.seen.blocks(from_height=head.height + 1), after=head):
        if block[0].actor not in (DRAW_ACTOR, ROUND_ACTOR):
            break
        events, head = (*events, *block), after
    return replace(decision, events=events), head


def _moment(
    context: RequestContext, decision: Decision, head: Head | None
) -> tuple[Moment, Sequence[Event]]:
    """Return the state after ``decision``, in a dry run as an overlay, and the events."""
    engine, events = context.engine, decision.events
    view = engine.view
    if head is None:
        over = view.overlay()
        apply_all(over, decision.events)
        events += tuple(_settle(over))
        view = over
    seen = seen_by(view, context.caller)
    return Moment(view, view.at_ms, engine.head.seq, seen, context.has_executor), events


def _settle(over: State) -> list[Event]:
    """Settle the due conflicts of a dry run that need no lottery; return the events.

    Conflicts that need a lottery are left open, because a draw cannot be predicted.
    """
    found: list[Event] = []
    for name in list(over.open_conflicts):
        declared = over.conflicts[name].declared
        if not declared.tokens and declared.due_ms <= over.at_ms:
            settled = decide(over, Draw(name), now_ms=over.at_ms, actor=DRAW_ACTOR)
            apply_all(over, settled.events)
            found += settled.events
    return found
