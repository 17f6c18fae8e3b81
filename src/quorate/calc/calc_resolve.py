"""``calc resolve``: the cuts and the drawn runs by which a conflict would make room.

The conflict frees ``deficit`` more GPUs in a scope, or makes room for a run of the world. If the
world declares no ``pool``, there is no minimum runtime, so every run may be drawn. If all cuts and
draws together do not make enough room, nothing is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from quorate.calc.missing_gpus import missing_now
from quorate.calc.running_world import ACTOR, Standing, read_standing
from quorate.calc.world_reader import any_whole, link_or_hash, open_world, settle
from quorate.core.preemption.conflict_scope import Prepared, Question, for_reservation, prepare
from quorate.core.preemption.conflicts import lost_gpu_ms, not_resolvable
from quorate.core.preemption.cut_order import Candidate
from quorate.core.preemption.lottery import dummy_seed, first_draw_odds
from quorate.core.preemption.resolver import Drawn
from quorate.documents import values
from quorate.documents.field_reader import At, fields_of, mapped
from quorate.documents.labels import label_key, label_value
from quorate.model.amounts import TIME_MS_MIN, hours_text
from quorate.model.events import (
    ConflictCause,
    CutStep,
    EndReason,
    ReservationMade,
    RunSubmitted,
    Scope,
)
from quorate.model.selector import Selector, matches
from quorate.model.specs import DEFAULT_POOL
from quorate.model.state.apply_event import apply
from quorate.views.kinds.kinds_plans import cut_tree
from quorate.views.refusal_answer import error, invalid_request

RESOLVE: Final = frozenset({"deficit", "run", "scope", "seed"})
EXHAUSTED: Final = "lottery exhausted before clearing deficit"
_KINDS: Final = {
    CutStep.BACKFILL: ("Overstayed", EndReason.OVERSTAYED),
    CutStep.SPARE: ("DropSpare", EndReason.DROP_SPARE),
    CutStep.SHRINK: ("Shrink", EndReason.SHRINK),
    CutStep.BURST: ("BurstCut", EndReason.BURST_CUT),
    CutStep.LOTTERY: ("Lottery", EndReason.RANDOM_PREEMPT),
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request: free ``deficit`` more GPUs in ``scope``, or make room for ``run``."""

    deficit: int | None
    run: str | None
    scope: Selector
    seed: bytes


def resolve(world: object) -> dict[str, object]:
    """Return the cuts by step, the entrants, every draw and the victims; or ``error``."""
    fields, at = open_world(world, ["now", "nodes", "resolve"])
    asked = fields.required("resolve", _asked)
    flavor = fields.maybe("flavor", values.line)
    settle(at)
    assert asked is not None, world
    standing = read_standing(fields, at)
    if asked.run is not None:
        question = _for_run(standing, at, asked.run)
        settle(at)
        assert question is not None, world
    else:
        question = _by_hand(standing, at, asked, flavor)
    if isinstance(question, str):
        return invalid_request(question)
    if "pool" not in fields:
        question = replace(question, since_ms=TIME_MS_MIN)  # No minimum runtime applies.
    return _answer(standing, question, asked.seed)


# --- The question ---------------------------------------------------------------------------------


def _asked(value: object, at: At) -> _Asked | None:
    fields = fields_of(value, at, RESOLVE)
    if fields is None:
        return None
    deficit = fields.maybe("deficit", any_whole)
    run = fields.maybe("run", values.line)
    if ("deficit" in fields) == ("run" in fields):
        at.fault("must have either deficit or run", "state the GPUs to free, or the run to start")
    return _Asked(
        deficit,
        run,
        fields.optional("scope", _scope, ()),
        fields.optional("seed", link_or_hash, dummy_seed(0)),
    )


def _scope(value: object, at: At) -> Selector | None:
    return mapped(value, at, key=label_key, read=label_value)


def _by_hand(standing: Standing, at: At, asked: _Asked, flavor: str | None) -> Question | str:
    """Return the conflict that frees ``deficit`` more GPUs in the domains of the scope."""
    assert asked.deficit is not None, asked
    state = standing.state
    flavors = sorted({record.spec.flavor for record in state.nodes.values()})
    if flavor is None:
        if len(flavors) != 1:
            at.child("flavor").fault("is required", "add the kind of GPU, e.g. flavor: H100")
        settle(at)
        flavor = flavors[0]
    if asked.deficit <= 0:
        return f"deficit must be positive, got {asked.deficit}"
    domains = sorted(
        {
            record.spec.domain_key
            for record in state.nodes.values()
            if record.spec.flavor == flavor and matches(asked.scope, record.spec.location)
        }
    )
    if not domains:
        return f"no node has flavor {flavor} and is in the scope"
    return Question(
        ConflictCause.BY_HAND, Scope(DEFAULT_POOL, flavor, tuple(domains)), gpus=asked.deficit
    )


def _for_run(standing: Standing, at: At, name: str) -> Question | str | None:
    """Return the conflict that makes room for a run, in those domains that lack the fewest GPUs."""
    state, known = standing.state, standing.runs.get(name)
    place = at.child("resolve").child("run")
    if known is None:
        place.fault("is not a run of the world", "add it to runs")
        return None
    if name in state.runs:
        return f"run {name} has leases: it runs already"
    run = known.spec
    apply(state, RunSubmitted(at_ms=standing.now_ms, actor=ACTOR, run=run))
    _, found, fits_empty = missing_now(state, run)
    if found is None or not fits_empty:
        return f"run {name} would not fit even if the fleet were empty"
    reservation = f"{name}@1"
    apply(
        state,
        ReservationMade(
            at_ms=standing.now_ms,
            actor=ACTOR,
            reservation=reservation,
            run=name,
            slice=found,
            payers=(),
            planned_start_ms=standing.now_ms,
            natural_start_ms=None,
            by_conflict=True,
        ),
    )
    return for_reservation(state, reservation)


# --- The answer -----------------------------------------------------------------------------------


def _answer(standing: Standing, question: Question, seed: bytes) -> dict[str, object]:
    state, now_ms = standing.state, standing.now_ms
    resolver = question.resolver(state, now_ms)
    assert resolver is not None, question
    scope: dict[str, object] = {
        "flavor": question.scope.flavor,
        "domains": list(question.scope.domains),
        "deficit": resolver.deficit,
    }
    prepared = prepare(state, question, resolver, now_ms)
    if isinstance(prepared, int):
        refusal = not_resolvable(question, resolver.deficit, prepared)
        return {**error(EXHAUSTED, refusal), **scope}
    drawn = prepared.draw(seed)
    made = resolver.cuts if drawn is None else drawn.cuts
    cuts = made if drawn is None else (*made, *drawn.victims)
    return {
        **scope,
        "short": resolver.short,
        "cuts": [cut_tree(cut) for cut in made],
        **_lottery(prepared, drawn, seed),
        "actions": [action for cut in cuts for action in _actions(standing, cut)],
        "lostGPUHours": hours_text(sum(lost_gpu_ms(state, cut, now_ms) for cut in cuts), up=True),
    }


def _lottery(prepared: Prepared, drawn: Drawn | None, seed: bytes) -> dict[str, object]:
    """Return the lottery's tokens, odds, draws and victims; no draws if the cuts are enough."""
    held: dict[str, list[str]] = {}
    for token in prepared.tokens:
        held.setdefault(prepared.owners[token.run], []).append(token.run)
    victims, cuts = ((), ()) if drawn is None else (drawn.victims, drawn.cuts)
    return {
        "tokens": [
            {"owner": prepared.owners[token.run], "run": token.run, "gpus": token.gpus}
            for token in prepared.tokens
        ],
        "odds": {owner: str(odds) for owner, odds in sorted(first_draw_odds(held).items())},
        "seed": "" if drawn is None else seed.hex(),
        "draws": []
        if drawn is None
        else [
            {"owner": owner, "run": run, "spared": run in drawn.spared}
            for owner, run in drawn.draws
        ],
        "victims": [victim.run for victim in victims],
        "shortWithout": {
            victim.run: prepared.resolver.short_without(_others(victims, victim), cuts)
            for victim in victims
        },
    }


def _others(victims: Sequence[Candidate], left_out: Candidate) -> list[Candidate]:
    return [victim for victim in victims if victim is not left_out]


def _actions(standing: Standing, cut: Candidate) -> list[dict[str, object]]:
    """Return, for each lease of ``cut``, how the lease ends, and why."""
    kind, reason = _KINDS[cut.step]
    found: list[dict[str, object]] = []
    for name in cut.leases:
        lease = standing.state.leases[name]
        found.append(
            {
                "kind": kind,
                "run": cut.run,
                "lease": name,
                "group": lease.fact.comp_path.partition("/")[2],
                "gpus": lease.gpus,
                "reason": reason.value,
            }
        )
    return found
