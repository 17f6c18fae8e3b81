"""Names of other tenants are replaced everywhere; the caller's own names stay."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec.structs import replace

from quorate.core.accounting.wait_causes import Wait
from quorate.core.admission.quota_holders import Holder, QuotaInTheWay
from quorate.core.commands import Submit, Wiped
from quorate.core.decide import decide
from quorate.core.explain.change_effect import Effect, Moved
from quorate.core.explain.explanation import Explanation
from quorate.core.explain.remedies import Remedy, RemedyKind
from quorate.core.explain.start_grounds import Danger
from quorate.core.explain.start_plan import Forecast
from quorate.core.preemption.conflict_preview import Contest, Entrant
from quorate.core.preemption.cut_order import Candidate
from quorate.core.preemption.resolver import Drawn
from quorate.model.cause_text import cause_text
from quorate.model.events import (
    BackfillNoted,
    CutStep,
    EndReason,
    LeaseEnded,
    MoveCause,
    MoveCode,
    Scope,
)
from quorate.model.refusal import Refusal, RefusalCode, sentence
from quorate.model.specs import Follow
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run, world
from quorate.views.redaction.legacy_causes import WITHHELD
from quorate.views.redaction.redacted_answers import (
    redacted_effect,
    redacted_explanation,
    redacted_forecast,
)
from quorate.views.redaction.redaction import OTHERS, Redaction, unnamed
from quorate.views.runs.conflict_view import contest_lines, contest_tree
from quorate.views.runs.explanation_view import explanation_lines


@pytest.fixture(scope="module")
def redaction() -> Redaction:
    """Return the redaction for a caller of ``me``, with ``you`` as another tenant."""
    money = [budget(owner, owner, envelope("e", 8)) for owner in ("me", "you")]
    state = world(nodes=fleet({"A": 16}), budgets=money)
    for owner in ("me", "you"):
        found = decide(state, Submit(run(f"of-{owner}", 4, owner)), now_ms=NOW_MS, actor="test")
        apply_all(state, found.events)
    return Redaction(state, frozenset({"me"}))


def reserved(gpus: int) -> Refusal:
    """Return a refusal because room is reserved for a run of each tenant."""
    return Refusal(
        code=RefusalCode.RESERVED, subject="of-you@1, of-me@1, of-you@2", wanted=gpus, short=gpus
    )


@pytest.mark.parametrize("gpus", [1, 4])
@pytest.mark.parametrize(
    ("after", "told"),
    [
        ("", ""),
        ("; overdue: of-you, of-me", "; overdue: (others), of-me"),
        (
            "; overdue: of-you; no conflict: none is needed",
            "; overdue: (others); no conflict: none is needed",
        ),
    ],
)
def test_a_cause_names_ones_own_only(
    redaction: Redaction, gpus: int, after: str, told: str
) -> None:
    said = sentence(reserved(gpus))
    assert redaction.text(said + after) == said.replace("of-you@1", OTHERS).replace(
        ", of-you@2", ""
    ) + (told)
    assert Redaction(redaction.view).text(said + after) == said + after
    assert sentence(redaction.refusal(reserved(gpus))) == redaction.text(said)


def test_a_cause_for_unknown_readers_counts_its_objects() -> None:
    leases = (("lease", "of-you/0"), ("lease", "of-me/0"))
    assert unnamed(MoveCause(MoveCode.LEASE_OVERRAN, leases)) == "2 leases overran"
    node = MoveCause(MoveCode.NODE_LOST, (("node", "a0000"),))
    assert unnamed(node) == "a node failed"
    clearing = MoveCause(MoveCode.CONFLICT_CLEARING, (("conflict", "1"),))
    assert unnamed(clearing) == "a conflict makes room for the start"


def test_a_cause_of_an_old_ledger_for_unknown_readers_names_no_run() -> None:
    said = f"{sentence(reserved(4))}; overdue: of-you; no conflict: none would make room now"
    assert unnamed(MoveCause(MoveCode.AS_RECORDED, (), said)) == (
        "it would not end before the planned starts of 3 reservations: 4 of 4 GPUs short; "
        "overdue: 1 run; no conflict: none would make room now"
    )
    moved = "reservation of-you@1, made before it, has moved"
    assert unnamed(MoveCause(MoveCode.AS_RECORDED, (), moved)) == (
        "a reservation, made before it, has moved"
    )


@pytest.mark.parametrize(
    ("kind", "mine", "other"),
    [
        ("lease", "of-me/0", "of-you/0"),
        ("run", "of-me", "of-you"),
        ("reservation", "of-me@1", "of-you@1"),
        ("owner", "me", "you"),
        ("envelope", "me/e", "you/e"),
        ("cap", "me/all", "you/all"),
        ("envelope", "me/e", "gone/e"),
    ],
)
def test_the_objects_of_a_cause_are_named_to_their_owner_only(
    redaction: Redaction, kind: str, mine: str, other: str
) -> None:
    cause = MoveCause(MoveCode.LEASE_OVERRAN, ((kind, other), (kind, mine), (kind, other)))
    told = redaction.cause(cause)
    assert told.objects == ((kind, OTHERS), (kind, mine))
    assert cause_text(told) == f"{kind} {OTHERS}, {kind} {mine} overran"
    assert Redaction(redaction.view).cause(cause) is cause


def test_the_nodes_of_a_cause_are_named_to_every_owner(redaction: Redaction) -> None:
    cause = MoveCause(MoveCode.NODE_LOST, (("node", "a0000"), ("domain", "A")))
    assert redaction.cause(cause) == cause


def test_a_run_that_keeps_room_without_a_firm_start_is_named_to_its_owner_only(
    redaction: Redaction,
) -> None:
    kept = Refusal(code=RefusalCode.RESERVED, subject="of-you, of-me", wanted=4, short=4)
    assert redaction.refusal(kept).subject == f"{OTHERS}, of-me"


def recorded(text: str) -> MoveCause:
    """Return the cause in an old ledger, which is a text."""
    return MoveCause(MoveCode.AS_RECORDED, (), text)


@pytest.mark.parametrize(
    "text",
    [
        "run of-you took its place",
        "overdue: of-you",
        "it can start sooner; of-you gave way",
        "nodes are short by 4 of 8 GPUs; no conflict: of-you objects",
        "no node of the pool has flavor of you and matches the run's selector",
        "it can start sooner; overdue: of-me; overdue: of-you",
    ],
)
def test_a_text_whose_references_are_not_known_is_withheld_whole(
    redaction: Redaction, text: str
) -> None:
    assert redaction.text(text) == WITHHELD
    assert unnamed(recorded(text)) == WITHHELD
    assert Redaction(redaction.view).text(text) == text


@pytest.mark.parametrize(
    "code",
    [
        RefusalCode.NO_ENVELOPE,
        RefusalCode.INSUFFICIENT_FUNDS,
        RefusalCode.BORROW_LIMIT,
        RefusalCode.NO_NODES,
        RefusalCode.INSUFFICIENT_CAPACITY,
        RefusalCode.NO_SINGLE_DOMAIN,
        RefusalCode.FUNDS_ELSEWHERE,
        RefusalCode.SEARCH_LIMIT,
        RefusalCode.WAITING_FOR_QUOTA,
        RefusalCode.JUST_CUT,
    ],
)
@pytest.mark.parametrize("gpus", [1, 8])
def test_a_cause_that_names_no_run_is_told_as_it_is(
    redaction: Redaction, code: RefusalCode, gpus: int
) -> None:
    subject = str(gpus) if code is RefusalCode.BORROW_LIMIT else "me"
    said = sentence(Refusal(code=code, subject=subject, wanted=gpus, short=1, limit=2, current=1))
    assert redaction.text(said) == said == unnamed(recorded(said))


@pytest.mark.parametrize("code", [RefusalCode.WAITING_FOR_UPSTREAM, RefusalCode.UPSTREAM_FAILED])
def test_a_run_that_is_followed_is_named_to_its_own(
    redaction: Redaction, code: RefusalCode
) -> None:
    mine, yours = (Refusal(code=code, subject=f"run of-{owner}") for owner in ("me", "you"))
    assert redaction.refusal(mine) == mine
    assert redaction.refusal(yours).subject == f"run {OTHERS}"
    assert redaction.text(sentence(yours)) == sentence(redaction.refusal(yours))


def test_of_a_name_that_another_has_only_that_it_is_taken_is_told(redaction: Redaction) -> None:
    taken = "Run/{}: metadata.name: a run of this name exists{}"
    for after in (" (Running)", " (Running, since 12:00, of you)"):
        told = redaction.refusal(
            Refusal(code=RefusalCode.ALREADY_EXISTS, subject=taken.format("of-you", after))
        )
        assert told.subject == taken.format("of-you", "")
        mine = Refusal(code=RefusalCode.ALREADY_EXISTS, subject=taken.format("of-me", after))
        assert redaction.refusal(mine) == mine


def test_a_reservation_that_has_moved_is_named_to_its_own(redaction: Redaction) -> None:
    said = "reservation {}, made before it, has moved"
    assert redaction.text(said.format("of-you@1")) == said.format(OTHERS)
    assert redaction.text(said.format("of-me@1")) == said.format("of-me@1")


def test_the_run_whose_spare_it_was_is_not_named_to_whoever_filled_it(redaction: Redaction) -> None:
    ended = LeaseEnded(
        at_ms=NOW_MS,
        actor="you/ann",
        lease="of-me/0",
        reason=EndReason.RECLAIMED_BY_SPARE,
        end_ms=NOW_MS,
        detail="of-you",
    )
    told = redaction.event(ended)
    assert isinstance(told, LeaseEnded)
    assert (told.detail, told.actor, told.lease) == (OTHERS, OTHERS, "of-me/0")
    assert Redaction(redaction.view).event(ended) is ended


def test_what_an_old_ledger_says_was_backfilled_is_named_to_its_owner_only(
    redaction: Redaction,
) -> None:
    noted = BackfillNoted(
        at_ms=NOW_MS, actor="me/ann", run="of-me", bundle=0, reservation="of-you@1", vacate_ms=1
    )
    told = redaction.event(noted)
    assert isinstance(told, BackfillNoted)
    assert (told.run, told.reservation) == ("of-me", OTHERS)
    assert Redaction(redaction.view).event(noted) is noted


def contest() -> Contest:
    """Return a conflict with a run of each tenant, both of which are drawn."""
    cut = Candidate(CutStep.LOTTERY, "of-you", 0, 4, ("of-you/0",), ())  # type: ignore[arg-type]
    entrants = tuple(
        Entrant(
            owner=owner,
            run=f"of-{owner}",
            gpus=4,
            odds=Fraction(1, 2),
            owner_odds=Fraction(1, 2),
            cut=1,
        )
        for owner in ("me", "you")
    )
    return Contest(
        conflict="",
        scope=Scope("default", "H100", ()),
        at_ms=NOW_MS,
        deficit=4,
        short=4,
        size_max=16,
        cuts=(cut,),
        entrants=entrants,
        draws=2,
        sample=Drawn((), (cut,), (("you", "of-you"), ("me", "of-me")), frozenset({"of-you"})),
        sure=frozenset(),
        lost_gpu_ms=0,
    )


def test_who_would_enter_a_conflict_is_named_to_their_own(redaction: Redaction) -> None:
    danger = Danger(
        conflict="", reservation="of-you@1", at_ms=0, is_certain=True, odds=None, cut=0, draws=0
    )
    forecast = Forecast(
        run=run("of-me", 4, "me"),
        now_ms=NOW_MS,
        phase=Phase.PENDING,
        recorded_phase=Phase.PENDING,
        overdue=("of-you", "of-me"),
        contest=contest(),
        dangers=(danger,),
    )
    told = redacted_forecast(forecast, redaction)
    assert isinstance(told.contest, Contest)
    text = f"{contest_lines(told.contest, NOW_MS)}{contest_tree(told.contest)}{told.dangers}"
    assert "you" not in text
    assert "of-me" in text
    assert told.overdue == (OTHERS, "of-me")
    assert redacted_forecast(forecast, Redaction(redaction.view)) is forecast


def test_an_explanation_counts_those_it_does_not_name(redaction: Redaction) -> None:
    wiped = Wiped("a0000", is_clean=True, claim="of-you")
    remedy = Remedy(
        kind=RemedyKind.WIPE_NODE,
        target_kind="node",
        target_name="a0000",
        changes=(),
        effect="once it is clean after claim of-you, of-me starts with 4 GPUs",
        command=("quorate", "node", "wiped", "a0000", "--after", "of-you"),
        trial=wiped,
    )
    holders = tuple(
        Holder(run=f"of-{owner}", owner=owner, nodes=1, gpus=4) for owner in ("me", "you")
    )
    quota = QuotaInTheWay(
        code=RefusalCode.MAX_NODES,
        tenant="top",
        current=2,
        wanted=1,
        limit=2,
        holders=holders,
        others=3,
    )
    found = Explanation(
        run="of-me",
        phase=Phase.PENDING,
        recorded_phase=Phase.PENDING,
        since_ms=NOW_MS,
        refusal=reserved(4),
        quotas=(quota,),
        remedies=(remedy,),
    )
    told = redacted_explanation(found, redaction)
    lines = "\n".join(explanation_lines(told, NOW_MS, (), Wait(total_ms=0, parts_ms={})))
    assert "you" not in lines
    assert "after a claim of others, of-me starts" in lines
    assert told.quotas[0].others == 4


@pytest.mark.parametrize("upstream", ["of-me", "of-you"])
def test_why_a_run_has_no_planned_start_is_told_unless_it_names_others(
    redaction: Redaction, upstream: str
) -> None:
    waits = "waiting alone will not help; see the remedies below"
    follows = f"it is planned once it no longer waits for other runs: waiting for run {upstream}"
    state = redaction.view.overlay()
    follower = replace(run("follower", 4, "me"), follow=Follow(after=(upstream,)))
    for submitted in (run("alone", 64, "me"), follower):
        found = decide(state, Submit(submitted), now_ms=NOW_MS, actor="test")
        apply_all(state, found.events)
    mine = Redaction(state, frozenset({"me"}))

    def told(name: str, parked: str) -> str:
        pending = Phase.PENDING
        found = Explanation(
            run=name, phase=pending, recorded_phase=pending, since_ms=NOW_MS, parked=parked
        )
        return redacted_explanation(found, mine).parked

    assert told("alone", waits) == waits
    assert told("follower", follows) == (follows if upstream == "of-me" else WITHHELD)


def test_the_effect_on_others_is_counted(redaction: Redaction) -> None:
    effect = Effect(
        places=(Moved("of-me", 1, 2), Moved("of-you", 2, 1)),
        stopped=("of-you",),
        started=("of-me",),
    )
    told, others = redacted_effect(effect, redaction)
    assert told == Effect(places=(Moved("of-me", 1, 2),), started=("of-me",))
    assert others == 2
    assert redacted_effect(effect, Redaction(redaction.view)) == (effect, 0)
