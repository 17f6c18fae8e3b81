"""The resolver, compared with brute force in small worlds, and the invariants of its results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.audit.invariants import sweep
from quorate.core.commands import Draw
from quorate.core.decide import decide
from quorate.core.decision_log import DecisionLog
from quorate.core.preemption.conflict_scope import Prepared, for_reservation, matured, prepare
from quorate.core.preemption.conflicts import declare_conflict
from quorate.core.preemption.lottery import dummy_seed
from quorate.model.events import (
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    CutStep,
    LeaseEnding,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from tests.oracles.choosing import chooser
from tests.oracles.effort import examples
from tests.oracles.resolving import (
    BEGAN_MS,
    RESERVED,
    WANTED,
    Plain,
    choose_world,
    link,
    packs,
    tokens,
)


@st.composite
def worlds(draw: st.DrawFn) -> State:
    return choose_world(chooser(draw))


@pytest.mark.heavy
@examples(3)
@given(state=worlds(), number=st.integers(0, 50))
def test_it_cuts_and_draws_what_the_dumb_one_does(state: State, number: int) -> None:
    question = for_reservation(state, RESERVED)
    scope = set(question.scope.domains)
    resolver = question.resolver(state, BEGAN_MS)
    plain = Plain(state, scope)
    assert resolver is not None
    assert (resolver.deficit == 0) == packs(state, [])
    assert plain.deficit in {resolver.deficit, 10**9}
    if not resolver.deficit or plain.deficit == 10**9:
        return
    assert {name for cut in resolver.cuts for name in cut.leases} == plain.gone
    assert resolver.short == plain.left
    if not resolver.short:
        return
    made_ms = state.reservations[RESERVED].made.at_ms
    held = tokens(state, scope, plain.gone, matured(state, BEGAN_MS, made_ms))
    found = resolver.tokens(question.enters(state, BEGAN_MS))
    assert {token.run: frozenset(token.leases) for token in found} == held
    prepared = prepare(state, question, resolver, BEGAN_MS)
    everything = plain.draw(held, sorted(held))
    assert (everything is None) == isinstance(prepared, int)
    if isinstance(prepared, int):
        return
    _entrants_are_the_smallest(state, plain, prepared, held)
    drawn = prepared.draw(dummy_seed(number))
    assert drawn is not None
    order = [run for _, run in drawn.draws]
    expected = plain.draw(held, order)
    assert expected is not None
    victims, cut = expected
    assert victims == [victim.run for victim in drawn.victims]
    assert {name for each in drawn.cuts for name in each.leases} == cut
    assert drawn.spared == set(order) - set(victims)


def _entrants_are_the_smallest(
    state: State, plain: Plain, prepared: Prepared, held: dict[str, frozenset[str]]
) -> None:
    """Check the entrants: up to the bound, or up to the smallest size at which they suffice."""
    sizes = {run: sum(state.leases[name].gpus for name in leases) for run, leases in held.items()}
    bound = state.pools["default"].collateral_max * plain.left
    while plain.draw(held, [run for run in sorted(held) if sizes[run] <= bound]) is None:
        bound = min(size for size in sizes.values() if size > bound)
    assert prepared.size_max == bound
    assert {token.run for token in prepared.tokens} == {r for r in held if sizes[r] <= bound}


@pytest.mark.heavy
@examples(2)
@given(state=worlds(), seen=st.sampled_from((False, True)))
def test_what_is_settled_packs_and_no_victim_is_needless(state: State, *, seen: bool) -> None:
    after = state.overlay()
    log = DecisionLog(after, now_ms=BEGAN_MS, actor="test", has_executor=seen)
    declared = declare_conflict(log, for_reservation(after, RESERVED))
    if declared is None:
        assert packs(state, [])
        return
    if isinstance(declared, Refusal):
        assert declared.code is RefusalCode.NOT_RESOLVABLE
        return
    apply_all(after, log.events)
    resolved = _settled(after, declared, has_executor=seen)
    assert resolved.outcome is ConflictOutcome.CLEARED
    cuts = {name: cut for cut in resolved.cuts for name in cut.leases}
    assert packs(state, list(cuts))
    whole = {cut.run for cut in resolved.cuts if cut.step is not CutStep.SPARE and not cut.bundle}
    for cut in resolved.cuts:
        if cut.step is CutStep.SHRINK:
            assert cut.bundle > 0
        if cut.step is not CutStep.LOTTERY and cut.run in whole:
            continue  # It ends with the rest of its run.
        left = [name for name, other in cuts.items() if other is not cut]
        if cut.run in whole:
            left = [name for name in left if cuts[name].run != cut.run]
        assert not packs(state, left), cut
    if not seen:
        assert after.runs[WANTED].leases, "it starts in the very room that was made for it"


def _settled(state: State, declared: ConflictDeclared, *, has_executor: bool) -> ConflictResolved:
    """Settle ``declared``, and check the resulting state."""
    preimage = link(declared.preimage_index) if declared.tokens else ""
    decision = decide(
        state,
        Draw(declared.conflict, preimage),
        now_ms=BEGAN_MS,
        actor="test",
        has_executor=has_executor,
    )
    assert decision.refusals == ()
    apply_all(state, decision.events)
    assert sweep(state) == []
    resolved = decision.events[0]
    assert isinstance(resolved, ConflictResolved)
    told = [e.lease for e in decision.events if isinstance(e, LeaseEnding)]
    assert sorted(told) == sorted(name for cut in resolved.cuts for name in cut.leases)
    return resolved
