"""``calc forecast``: when and where a run would start, who would pay, and why it has to wait.

The run is submitted to the world, and the answer has the figures that ``quorate plan`` shows. Runs
that the world lists before this run are submitted before it if they have the phase ``Pending`` and
no lease.
"""

from __future__ import annotations

from typing import Final

from quorate.calc.running_world import ACTOR, Standing, read_standing
from quorate.calc.world_reader import open_world, settle
from quorate.core.admission.payers import family_payers
from quorate.core.commands import Submit
from quorate.core.decide import decide
from quorate.core.explain.start_plan import Forecast, foretell
from quorate.core.preemption.lottery import CHAIN_LENGTH, dummy_seed
from quorate.documents import values
from quorate.documents.field_reader import At, fields_of
from quorate.documents.times import time_or_none
from quorate.model.amounts import SECOND_MS
from quorate.model.events import LotteryCommitted, Share, Slice
from quorate.model.refusal import Refusal, RefusalCode, sentence
from quorate.model.selector import CLUSTER, DOMAIN, REGION
from quorate.model.specs import Run
from quorate.model.state.apply_event import apply, apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView
from quorate.views.refusal_answer import error, invalid_request, refusal_tree

FORECAST: Final = frozenset({"run", "packReason", "coverReason", "useSnapshot"})


def forecast(world: object) -> dict[str, object]:
    """Return when and how a run of the world would start, or ``error``."""
    fields, at = open_world(world, ["now", "runs", "forecast"])
    asked = fields.required("forecast", _asked)
    settle(at)
    assert asked is not None, world
    standing = read_standing(fields, at)
    run = standing.runs.get(asked)
    if run is None:
        at.child("forecast").child("run").fault("is not a run of the world", "add it to runs")
    settle(at)
    assert run is not None, asked
    if asked in standing.state.runs:
        return invalid_request(f"run {asked} has leases: it runs already")
    state = _with_queue(standing, asked)
    answer = foretell(state, run.spec, standing.now_ms)
    if not isinstance(answer, Forecast):
        return error("InvalidRequest", answer[0])
    return forecast_tree(state, answer)


def _asked(value: object, at: At) -> str | None:
    """Return the name of the run to forecast; ignore the other fields of ``forecast``."""
    fields = fields_of(value, at, FORECAST)
    if fields is None:
        return None
    for name in ("packReason", "coverReason"):
        fields.maybe(name, values.line)
    fields.maybe("useSnapshot", values.truth)
    return fields.required("run", values.line, remedy="name a run of the world")


def _with_queue(standing: Standing, asked: str) -> State:
    """Return the state, with a chain for lotteries and with the runs that wait before ``asked``."""
    state, now_ms = standing.state, standing.now_ms
    committed = LotteryCommitted(
        at_ms=now_ms, actor=ACTOR, commitment=dummy_seed(0).hex(), length=CHAIN_LENGTH
    )
    apply(state, committed)
    for name, run in standing.runs.items():
        if name == asked:
            break
        if run.phase is Phase.PENDING and name not in state.runs:
            decision = decide(state, Submit(run.spec), now_ms=now_ms, actor=ACTOR)
            apply_all(state, decision.events)
    return state


# --- The answer -----------------------------------------------------------------------------------


def forecast_tree(state: State, found: Forecast) -> dict[str, object]:
    """Return the forecast ``found`` as JSON values."""
    recourse, start_ms = found.recourse, found.now_ms if found.starts_now else found.start_ms
    place = found.place or found.scope
    return {
        "startsNow": found.starts_now,
        "plannedStart": time_or_none(found.now_ms if found.starts_now else found.plan_start_ms),
        "planState": None if found.plan_state is None else found.plan_state.value,
        "naturalStart": time_or_none(found.now_ms if found.starts_now else found.natural_start_ms),
        "conflictStart": None if recourse is None else time_or_none(recourse.start_ms),
        "byConflict": found.by_conflict,
        "noConflictBecause": "" if recourse is None else recourse.why_not,
        "earliestStart": time_or_none(start_ms),
        "countdownSeconds": None
        if start_ms is None
        else -(-(start_ms - found.now_ms) // SECOND_MS),
        "expectedEnd": time_or_none(found.expected_end_ms),
        "confidence": None if found.confidence is None else found.confidence.value,
        "overdue": list(found.overdue),
        "queuePosition": found.queue_position,
        "deficit": deficit_of(found),
        "scope": labels_of(place),
        "domains": [] if place is None else [list(part) for part in place.domains],
        "payers": [_share(share) for share in found.payers],
        "payingEnvelope": _first_payer(state, found),
        "reason": "" if found.refusal is None else reason_of(found.refusal, deficit_of(found)),
        "message": "" if found.refusal is None else sentence(found.refusal),
        "refusal": None if found.refusal is None else refusal_tree(found.refusal),
        "parked": found.parked,
        "remedies": [remedy.effect for remedy in found.remedies],
    }


def deficit_of(found: Forecast) -> int:
    """Return how many GPUs are missing: on nodes or, if nodes have enough, in budgets."""
    if found.starts_now:
        return 0
    if found.deficit or found.refusal is None:
        return found.deficit
    refusal = found.refusal
    return refusal.wanted if refusal.code is RefusalCode.NO_NODES else refusal.short


def labels_of(place: Slice | None) -> dict[str, str]:
    """Return the labels of the first domain of ``place``."""
    if place is None or not place.domains:
        return {}
    region, cluster, domain = place.domains[0][0].split("/", 2)
    return {REGION: region, CLUSTER: cluster, DOMAIN: domain}


def _share(share: Share) -> dict[str, object]:
    return {"payer": share.payer, "tier": share.tier.value, "quantity": share.gpus}


def _first_payer(state: State, found: Forecast) -> str | None:
    """Return the forecast's first payer or, without payers, the first envelope in cover order."""
    if found.payers:
        return state.envelopes[found.payers[0].payer].spec.name
    return first_asked(state, found.run)


def first_asked(view: StateView, run: Run) -> str | None:
    """Return the first envelope in cover order for ``run``; None if no envelope may pay."""
    payers = family_payers(view, run.owner, run.flavors[0])
    return view.envelopes[payers[0][0]].spec.name if payers else None


def reason_of(refusal: Refusal, deficit: int) -> str:
    """Return a short text for ``refusal``; the field ``message`` has the full sentence."""
    match refusal.code:
        case RefusalCode.INSUFFICIENT_CAPACITY | RefusalCode.NO_NODES:
            return f"cluster short by {deficit} GPUs in scope"
        case RefusalCode.NO_SINGLE_DOMAIN:
            return "no single domain satisfies run grouping"
        case RefusalCode.INSUFFICIENT_FUNDS:
            return f"budget headroom short by {refusal.short} GPUs"
        case RefusalCode.BORROW_LIMIT:
            return f"borrow limit of {refusal.subject} GPUs exhausted for requested width"
        case RefusalCode.NO_ENVELOPE:
            return "no eligible envelope available"
        case _:
            return sentence(refusal)
