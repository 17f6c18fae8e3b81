"""Owners created, changed and removed: what is recorded, refused, and kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from quorate.core.commands import (
    Apply,
    Cancel,
    Change,
    Command,
    Complete,
    CreateOwner,
    RemoveOwner,
    Submit,
    UpdateOwner,
)
from quorate.core.decide import decide
from quorate.core.tenancy.tenant_commands import merged
from quorate.core.tenancy.tenant_use import NO_USE, uses
from quorate.ledger.snapshot import restore, take
from quorate.model.amounts import HOUR_MS
from quorate.model.events import OwnerApplied, OwnerRemoved
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Owner, Quota
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import borrowing, budget, envelope, fleet, lending, run
from quorate.testing.spec_strategies import owners
from quorate.testing.states import same
from tests.oracles.lives import Life

SHARE = "fair_share_target_ppm"
LIMITED = Owner(name="team", parents=("org",), quota=Quota(nodes_max=4, gpu_ms_budget=9))


def new_life() -> Life:
    """Return a family of two below org with 16 GPUs, and an unrelated owner that lends."""
    return Life(
        nodes=fleet({"A": 16}),
        owners=[
            Owner(name="org"),
            LIMITED,
            Owner(name="peer", parents=("org",)),
            Owner(name="loner"),
        ],
        budgets=[
            budget("b", "team", envelope("e", 16)),
            budget("s", "stranger", envelope("e", 16, lending=lending("team", "loner"))),
        ],
    )


def update(
    name: str = "team", *, parents: tuple[str, ...] | None = None, **quota: int | None
) -> UpdateOwner:
    return UpdateOwner(name, tuple(quota.items()), parents)


def refused(life: Life, command: Command) -> list[tuple[RefusalCode, str, str]]:
    """Return code, subject and remedy of each refusal, after which nothing was recorded."""
    decision = life.ask(command)
    assert decision.events == ()
    return [(each.code, each.subject, each.remedy) for each in decision.refusals]


def test_a_new_owner_is_written_with_who_and_why() -> None:
    life = new_life()
    new = Owner(name="new", parents=("org",), quota=Quota(concurrent_runs_max=0))
    decision = life.do(CreateOwner(new, "contract 17"))
    (event,) = decision.events
    assert event == OwnerApplied(life.now_ms, "test", new, "contract 17")
    assert decision.changes == (("Owner", "new", Change.CREATED),)
    assert life.state.owner_versions["new"] == life.state.seq == len(life.events)


@pytest.mark.parametrize(
    ("command", "after"),
    [
        (update(nodes_max=5), replace(LIMITED, quota=Quota(nodes_max=5, gpu_ms_budget=9))),
        (update(nodes_max=0), replace(LIMITED, quota=Quota(nodes_max=0, gpu_ms_budget=9))),
        (update(nodes_max=None), replace(LIMITED, quota=Quota(gpu_ms_budget=9))),
        (
            update(concurrent_runs_max=1, gpu_ms_budget=None),
            replace(LIMITED, quota=Quota(nodes_max=4, concurrent_runs_max=1)),
        ),
        (update(parents=()), replace(LIMITED, parents=())),
        (update(parents=("peer", "org")), replace(LIMITED, parents=("peer", "org"))),
    ],
)
def test_an_update_changes_what_it_gives_and_raises_the_version(
    command: UpdateOwner, after: Owner
) -> None:
    life = new_life()
    before = life.state.owner_versions["team"]
    decision = life.do(replace_version(command, before))
    assert decision.changes == (("Owner", "team", Change.CONFIGURED),)
    assert life.state.owners["team"] == after
    assert life.state.owner_versions["team"] == life.state.seq > before


def replace_version(command: UpdateOwner, version: int) -> UpdateOwner:
    return UpdateOwner(command.name, command.quota, command.parents, version, command.reason)


@pytest.mark.parametrize(
    "command",
    [update(), update(nodes_max=4), update(parents=("org",)), update(burst_allowance_ppm=None)],
)
def test_an_update_to_what_is_so_already_writes_nothing(command: UpdateOwner) -> None:
    life = new_life()
    decision = life.do(command)
    assert decision.events == ()
    assert decision.changes == (("Owner", "team", Change.UNCHANGED),)


LIST = "list them: quorate admin tenant list"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            CreateOwner(Owner(name="team")),
            (
                RefusalCode.ALREADY_EXISTS,
                "there is an owner 'team' already",
                "change it: quorate admin tenant update team",
            ),
        ),
        (update("nobody"), (RefusalCode.UNKNOWN_NAME, "there is no owner 'nobody'", LIST)),
        (
            RemoveOwner("nobody", version=7),
            (RefusalCode.UNKNOWN_NAME, "there is no owner 'nobody'", LIST),
        ),
        (
            CreateOwner(Owner(name="new", parents=("nobody",))),
            (
                RefusalCode.UNKNOWN_NAME,
                "Owner/new: spec.parents: there is no owner 'nobody'",
                "apply it first, or see: quorate get owners",
            ),
        ),
        (
            update("org", parents=("team",)),
            (
                RefusalCode.CONFLICT,
                "Owner/org: spec.parents: makes a cycle: org -> team -> org",
                "a family is a tree or a DAG: remove one of these parents",
            ),
        ),
        (
            CreateOwner(Owner(name="new", parents=("new",))),
            (
                RefusalCode.CONFLICT,
                "Owner/new: spec.parents: makes a cycle: new -> new",
                "a family is a tree or a DAG: remove one of these parents",
            ),
        ),
    ],
)
def test_what_cannot_be_is_refused(command: Command, told: tuple[RefusalCode, str, str]) -> None:
    assert refused(new_life(), command) == [told]


@pytest.mark.parametrize(
    "command", [UpdateOwner("team", (("nodes_max", 9),), version=1), RemoveOwner("team", version=1)]
)
def test_another_version_is_refused_with_the_one_it_is_at(command: Command) -> None:
    life = new_life()
    current = life.state.owner_versions["team"]
    assert refused(life, command) == [
        (
            RefusalCode.STALE_VERSION,
            f"owner 'team' is at version {current}, not at 1",
            "read it again, then repeat: quorate admin tenant get team",
        )
    ]
    (refusal,) = life.ask(command).refusals
    assert (refusal.wanted, refusal.current) == (1, current)


def test_of_two_updates_that_read_the_same_version_the_second_is_refused() -> None:
    life = new_life()
    version = life.state.owner_versions["team"]
    life.do(replace_version(update(nodes_max=5), version))
    second = replace_version(update(gpu_ms_budget=18), version)
    assert [code for code, _, _ in refused(life, second)] == [RefusalCode.STALE_VERSION]
    life.do(replace_version(update(gpu_ms_budget=18), life.state.owner_versions["team"]))
    assert life.state.owners["team"].quota == Quota(nodes_max=5, gpu_ms_budget=18)


def test_a_raised_limit_starts_who_waited_for_it() -> None:
    life = new_life()
    life.do(update(nodes_max=1))
    life.do(Submit(run("first", 8)))
    waiting = run("second", 8, on_quota="wait")
    life.do(Apply((waiting,)))
    assert life.phase("second") is Phase.PENDING
    life.do(update(nodes_max=2))
    assert life.phase("second") is Phase.RUNNING


def test_a_limit_lowered_below_use_stops_nothing() -> None:
    life = new_life()
    life.do(Submit(run("first", 16)))
    decision = life.do(update(nodes_max=0))
    assert [type(event) for event in decision.events] == [OwnerApplied]
    assert life.phase("first") is Phase.RUNNING


# --- Shares ---


@pytest.mark.parametrize(
    ("command", "warning"),
    [
        (
            update(fair_share_target_ppm=600_000),
            (
                "fair-share targets of the children of org add up to 1.1, more than 1: "
                "team 0.6, peer 0.5"
            ),
        ),
        (update(fair_share_target_ppm=500_000), ""),
        (
            CreateOwner(Owner(name="new", quota=Quota(fair_share_target_ppm=333_333))),
            (
                "fair-share targets of owners without parents add up to 1.133333, more than 1: "
                "org 0.8, new 0.333333"
            ),
        ),
        (CreateOwner(Owner(name="new", quota=Quota(fair_share_target_ppm=200_000))), ""),
        (
            CreateOwner(
                Owner(name="new", parents=("other",), quota=Quota(fair_share_target_ppm=200_001))
            ),
            (
                "fair-share targets of all families add up to 1.000001, more than 1; each target "
                "is a part of the whole fleet, not of a parent's target: org 0.8, other 0.200001"
            ),
        ),
        (CreateOwner(Owner(name="new")), ""),
        (
            Apply((Owner(name="new", quota=Quota(fair_share_target_ppm=333_333)),)),
            (
                "fair-share targets of owners without parents add up to 1.133333, more than 1: "
                "org 0.8, new 0.333333"
            ),
        ),
    ],
)
def test_targets_of_siblings_that_exceed_1_are_told(command: Command, warning: str) -> None:
    life = new_life()
    life.do(update("org", fair_share_target_ppm=800_000))
    life.do(update("peer", fair_share_target_ppm=500_000))
    life.do(CreateOwner(Owner(name="other")))
    assert life.do(command).warnings == ((warning,) if warning else ())


def test_of_many_targets_only_the_largest_are_listed() -> None:
    life = new_life()
    specs = tuple(
        Owner(name=f"o{n}", quota=Quota(fair_share_target_ppm=100_000 + n)) for n in range(12)
    )
    (warning,) = life.do(Apply(specs)).warnings
    assert warning.endswith(
        "add up to 1.200066, more than 1: o11 0.100011, o10 0.10001, o9 0.100009, o8 0.100008, "
        "o7 0.100007, o6 0.100006, o5 0.100005, o4 0.100004 and 4 more"
    )


def test_a_quota_is_declared_without_a_warning() -> None:
    life = new_life()
    assert life.do(Apply((replace(LIMITED, quota=Quota(nodes_max=1)),))).warnings == ()


# --- Removal ---


def test_an_owner_that_holds_nothing_goes_and_its_budgets_with_it() -> None:
    life = new_life()
    decision = life.do(RemoveOwner("team", reason="over"))
    assert decision.events == (OwnerRemoved(life.now_ms, "test", "team", "over"),)
    assert decision.changes == (("Owner", "team", Change.REMOVED),)
    assert decision.warnings == (
        "budget b no longer pays; past payments stay recorded",
        (
            "lending.to of s still names team: an owner of that name that is created later may "
            "borrow there"
        ),
    )
    state = life.state
    assert "team" not in state.owners
    assert "team" not in state.owner_versions
    assert "b" not in state.budgets
    assert state.children["org"] == ("peer",)
    assert [key for key, each in state.envelopes.items() if each.retired] == ["b/e"]


@pytest.mark.parametrize(("children", "more"), [(5, ""), (6, " and 1 more"), (9, " and 4 more")])
def test_at_most_a_handful_of_what_is_in_the_way_is_named(children: int, more: str) -> None:
    below = [Owner(name=f"c{number}", parents=("org",)) for number in range(children)]
    life = Life(nodes=(), budgets=(), owners=[Owner(name="org"), *below])
    ((_, subject, _),) = refused(life, RemoveOwner("org"))
    assert subject == f"owner 'org' is the parent of c0, c1, c2, c3, c4{more}"


def test_children_are_in_the_way() -> None:
    assert refused(new_life(), RemoveOwner("org")) == [
        (
            RefusalCode.CONFLICT,
            "owner 'org' is the parent of peer, team",
            (
                "remove them first, or give them other parents: quorate admin tenant update peer "
                "--parent OTHER, or --unset parents"
            ),
        )
    ]


def test_running_and_waiting_runs_are_in_the_way_and_so_is_what_pays_for_them() -> None:
    life = new_life()
    for name in ("first", "second", "third"):
        life.do(Submit(run(name, 8)))
    told = refused(life, RemoveOwner("team"))
    assert [code for code, _, _ in told] == [RefusalCode.CONFLICT] * 3
    assert [(subject, remedy) for _, subject, remedy in told] == [
        (
            "owner 'team' has 2 running runs: first, second",
            "wait until they end, or stop them: quorate cancel first",
        ),
        ("owner 'team' has 1 waiting run: third", "withdraw waiting runs: quorate cancel third"),
        (
            "the envelope b/e pays for 16 GPUs of first, second",
            "wait until they end, or stop them: quorate get leases -o wide",
        ),
    ]
    for name in ("third", "first", "second"):
        life.do(Cancel(name))
    life.do(RemoveOwner("team"))


def test_a_line_that_pays_for_others_is_in_the_way() -> None:
    life = new_life()
    life.do(Submit(run("borrower", 16, owner="loner", funding=borrowing(None, "stranger"))))
    assert [subject for _, subject, _ in refused(life, RemoveOwner("stranger"))] == [
        "the envelope s/e pays for 16 GPUs of borrower"
    ]
    life.do(Complete("borrower"), life.now_ms + HOUR_MS)
    life.do(RemoveOwner("stranger"))


def test_money_held_for_a_promised_start_is_in_the_way() -> None:
    life = new_life()
    life.do(Submit(run("first", 16, expected_duration_ms=HOUR_MS)))
    later = run("later", 8, owner="loner", funding=borrowing(None, "stranger"))
    life.do(Submit(replace(later, expected_duration_ms=HOUR_MS)))
    assert life.state.runs["later"].reservation is not None
    told = [(subject, remedy) for _, subject, remedy in refused(life, RemoveOwner("stranger"))]
    assert told == [
        (
            "the envelope s/e holds 8.27 GPU-hours for firm starts or filled spares",
            (
                "cancel the runs that the hours are held for, or wait: quorate get reservations "
                "-o wide"
            ),
        )
    ]
    life.do(Cancel("later"))
    life.do(RemoveOwner("stranger"))


def test_an_owner_can_come_back_and_its_budget_answers_for_what_it_paid() -> None:
    life = new_life()
    life.do(Submit(run("first", 16)))
    life.do(Complete("first"), life.now_ms + HOUR_MS)
    life.do(RemoveOwner("team"))
    assert life.state.runs["first"].phase is Phase.COMPLETED
    assert [code for code, _, _ in refused(life, Submit(run("next", 1)))] == [
        RefusalCode.UNKNOWN_NAME
    ]
    life.do(CreateOwner(replace(LIMITED, quota=Quota())))
    assert life.state.owner_versions["team"] == life.state.seq
    less = envelope("e", 16, gpu_ms_max=15 * HOUR_MS)
    assert [subject for _, subject, _ in refused(life, Apply((budget("b", "team", less),)))] == [
        (
            "Budget/b: spec.envelopes[e].maxGPUHours: 16 GPU-hours are spent or held already, 15 "
            "is too low"
        )
    ]
    life.do(Apply((budget("b", "team", envelope("e", 16)),)))
    assert life.state.envelopes["b/e"].ended_gpu_ms == 16 * HOUR_MS  # type: ignore[index]
    life.do(Submit(run("next", 16)))
    assert life.phase("next") is Phase.RUNNING


def test_a_ledger_with_a_removal_replays_and_its_snapshot_is_the_same() -> None:
    life = new_life()
    life.do(Submit(run("first", 16)))
    life.do(Complete("first"), life.now_ms + HOUR_MS)
    life.do(RemoveOwner("team"))
    life.do(Submit(run("other", 8, owner="peer", funding=borrowing(None, "stranger"))))
    replayed = State()
    apply_all(replayed, life.events)
    assert same(life.state, replayed) == []
    restored = restore(take(life.state))
    assert restored is not None
    assert same(life.state, restored) == []
    life.do(CreateOwner(LIMITED))
    apply_all(restored, life.events[restored.seq :])
    assert same(life.state, restored) == []


# --- What is used ---


def test_use_is_counted_as_quotas_count_it_for_owners_with_and_without_one() -> None:
    life = new_life()
    life.do(Submit(run("first", 12)))
    life.do(Submit(run("second", 2, owner="peer", funding=borrowing(None, "stranger"))))
    life.do(Submit(run("third", 16)))
    used = uses(life.state)
    counts = {name: (len(use.nodes), len(use.running), use.waiting) for name, use in used.items()}
    assert counts == {"org": (2, 2, 1), "team": (2, 1, 1), "peer": (1, 1, 0)}
    assert used.get("stranger", NO_USE) is NO_USE
    held = life.state.holdings.held()
    assert held == {"team": counts["team"][:2]}


# --- The property ---

_FIELDS = st.fixed_dictionaries(
    {},
    optional={field: st.none() | st.integers(0, 1_000_000) for field in Quota.__struct_fields__},
)


@pytest.mark.heavy
@given(owners(), _FIELDS, st.none() | st.just(()) | st.just(("p",)))
def test_an_update_changes_exactly_the_fields_given(
    owner: Owner, fields: dict[str, int | None], parents: tuple[str, ...] | None
) -> None:
    command = UpdateOwner(owner.name, tuple(fields.items()), parents)
    found = merged(owner, command)
    assert found.name == owner.name
    assert found.parents == (owner.parents if parents is None else parents)
    assert asdict(found.quota) == asdict(owner.quota) | fields


@pytest.mark.heavy
@given(owners(), owners())
def test_an_update_that_gives_everything_is_a_replacement(one: Owner, other: Owner) -> None:
    state = State()
    known = [Owner(name=n) for n in {*one.parents, *other.parents} - {one.name}]
    first = Apply((*known, replace(one, parents=tuple(p for p in one.parents if p != one.name))))
    apply_all(state, decide(state, first, now_ms=1, actor="t").events)
    wanted = replace(other, name=one.name)
    wanted = replace(wanted, parents=tuple(p for p in other.parents if p != one.name))
    command = UpdateOwner(one.name, tuple(asdict(wanted.quota).items()), wanted.parents)
    decision = decide(state, command, now_ms=1, actor="t")
    assert not decision.refusals
    apply_all(state, decision.events)
    assert state.owners[one.name] == wanted
