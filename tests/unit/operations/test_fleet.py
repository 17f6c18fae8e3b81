"""Nodes, claims, conflicts and passing time: who may change them, and the answers."""

from __future__ import annotations

import pytest
from msgspec import Struct, structs
from msgspec.structs import replace

from quorate.core.commands import Applied, Apply, Submit
from quorate.model.amounts import HOUR_MS
from quorate.model.events import NodeStatus
from quorate.model.specs import Node, Pool
from quorate.operations.caller import CLAIM, Caller
from quorate.operations.fleet.fleet_operations import (
    ClaimNodes,
    MarkNode,
    NodeWiped,
    ReleaseClaim,
    Resolve,
    Tick,
)
from quorate.testing.builders import node, run
from quorate.views.exits import Exit
from tests.unit.operations import ledger_thread as callers
from tests.unit.operations.ledger_thread import ADMIN, AUDITOR, STRANGER, LedgerThread

ADA, BEN, LAB_ADMIN = (
    replace(each, scopes=frozenset({CLAIM}))
    for each in (callers.ADA, callers.BEN, callers.LAB_ADMIN)
)
"""The same callers with the scope to claim nodes."""

NODE = "b0003"
SCANS = ClaimNodes(name="scans", flavor="H100", nodes=1, duration="8h")
RESOLVE = Resolve(flavor="H100", deficit=8)


@pytest.fixture
def ledger_thread() -> LedgerThread:
    return LedgerThread()


@pytest.mark.parametrize("caller", [LAB_ADMIN, ADA, AUDITOR], ids=lambda each: each.role)
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        *((f"{verb}-node", MarkNode(node=NODE)) for verb in ("fail", "recover", "cordon")),
        *((f"{verb}-node", MarkNode(node=NODE)) for verb in ("uncordon", "drain")),
        ("mark-node-wiped", NodeWiped(node=NODE)),
        ("resolve", RESOLVE),
        ("resolve", Resolve(flavor="H100", deficit=1, dry_run=True)),
        ("tick", Tick()),
    ],
)
def test_what_is_the_fleets_is_for_admins(
    ledger_thread: LedgerThread, caller: Caller, name: str, asked: Struct
) -> None:
    assert ledger_thread.refused(caller, name, asked).fault == "forbidden"


def test_a_node_is_what_an_admin_says(ledger_thread: LedgerThread) -> None:
    for verb, status in (
        ("cordon", NodeStatus.CORDONED),
        ("uncordon", NodeStatus.READY),
        ("drain", NodeStatus.CORDONED),
        ("fail", NodeStatus.FAILED),
        ("recover", NodeStatus.READY),
    ):
        told = ledger_thread.tree(
            ADMIN, f"{verb}-node", MarkNode(node=NODE, note="why", dry_run=True)
        )
        assert (told["dryRun"], told["head"]) == (True, None)
        ledger_thread.tree(ADMIN, f"{verb}-node", MarkNode(node=NODE, note="why"))
        assert ledger_thread.engine.view.node_status.get(NODE, NodeStatus.READY) is status
        again = ledger_thread.lines(ADMIN, f"{verb}-node", MarkNode(node=NODE))
        assert again[0] == f"node/{NODE} is {status} already"


@pytest.mark.parametrize(
    ("done", "verb", "instead"),
    [("cordon", "recover", "uncordon"), ("fail", "uncordon", "recover")],
)
def test_a_word_that_does_not_fit_names_the_one_that_does(
    ledger_thread: LedgerThread, done: str, verb: str, instead: str
) -> None:
    ledger_thread.ask(ADMIN, f"{done}-node", MarkNode(node=NODE))
    error = ledger_thread.refused(ADMIN, f"{verb}-node", MarkNode(node=NODE))
    assert error.fault == "conflict"
    assert error.lines[0].endswith(f"use: quorate node {instead} {NODE}")


def test_a_node_that_is_not_there_is_an_unknown_name(ledger_thread: LedgerThread) -> None:
    assert ledger_thread.refused(ADMIN, "fail-node", MarkNode(node="zz")).fault == "unknown-name"
    assert (
        ledger_thread.refused(ADMIN, "mark-node-wiped", NodeWiped(node="zz")).fault
        == "unknown-name"
    )
    assert ledger_thread.refused(ADMIN, "mark-node-wiped", NodeWiped(node=NODE)).fault == "conflict"


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("fail-node", MarkNode(node=NODE, note="a\x1b[2Jb")),
        ("mark-node-wiped", NodeWiped(node=NODE, note="a\nb")),
        ("release-claim", ReleaseClaim(claim="scans", note="a\u202eb")),
    ],
)
def test_a_note_hides_nothing(ledger_thread: LedgerThread, name: str, asked: Struct) -> None:
    ledger_thread.ask(ADA, "claim-nodes", SCANS)
    error = ledger_thread.refused(ADMIN, name, asked)
    assert (error.code, error.lines) == (Exit.INVALID, ("note: must be one printable line",))


# --- claims ---


def test_a_claim_is_its_askers_unless_an_admin_says_whose(ledger_thread: LedgerThread) -> None:
    told = ledger_thread.tree(ADA, "claim-nodes", SCANS)
    assert [each["name"] for each in told["changes"]] == ["scans"]
    spec = ledger_thread.engine.view.runs["scans"].spec
    assert (spec.owner, spec.user, spec.gpus, spec.sensitive) == ("vision", "ada", 8, True)
    other = ClaimNodes(
        name="more", flavor="H100", gpus=8, duration="8h", owner="speech", user="dr-x"
    )
    ledger_thread.ask(ADMIN, "claim-nodes", other)
    spec = ledger_thread.engine.view.runs["more"].spec
    assert (spec.owner, spec.user) == ("speech", "dr-x")


def test_whoever_is_above_a_tenant_may_claim_for_it(ledger_thread: LedgerThread) -> None:
    asked = ClaimNodes(name="x", flavor="H100", nodes=1, duration="8h", owner="vision")
    ledger_thread.ask(LAB_ADMIN, "claim-nodes", asked)
    assert ledger_thread.engine.view.runs["x"].spec.owner == "vision"


@pytest.mark.parametrize(
    ("caller", "owner", "user"),
    [
        (ADA, "speech", None),
        (ADA, "lab", None),
        (ADA, None, "ben"),
        (STRANGER, None, None),
        (AUDITOR, "vision", None),
    ],
)
def test_nobody_claims_for_others(
    ledger_thread: LedgerThread, caller: Caller, owner: str | None, user: str | None
) -> None:
    asked = ClaimNodes(name="x", flavor="H100", nodes=1, duration="8h", owner=owner, user=user)
    assert ledger_thread.refused(caller, "claim-nodes", asked).fault == "forbidden"


@pytest.mark.parametrize(
    ("asked", "code", "text"),
    [
        (ClaimNodes(flavor="H100", duration="8h"), Exit.USAGE, "give either nodes or gpus"),
        (
            ClaimNodes(flavor="H100", duration="8h", nodes=1, gpus=8),
            Exit.USAGE,
            "give either nodes or gpus",
        ),
        (ClaimNodes(flavor="H100", duration="8x", nodes=1), Exit.INVALID, "duration: must be"),
        (ClaimNodes(flavor="H100", duration="8h", nodes=1, name="A b"), Exit.INVALID, "name: "),
        (ClaimNodes(flavor="B200", duration="8h", nodes=1), Exit.REFUSED, "has no matching node"),
    ],
)
def test_what_is_wrong_with_a_claim_is_called_by_its_field(
    ledger_thread: LedgerThread, asked: ClaimNodes, code: Exit, text: str
) -> None:
    error = ledger_thread.refused(ADA, "claim-nodes", asked)
    assert error.code is code
    assert text in error.lines[0]


def test_who_is_of_no_tenant_has_to_say_whose_a_claim_is(ledger_thread: LedgerThread) -> None:
    error = ledger_thread.refused(ADMIN, "claim-nodes", SCANS)
    assert error.code is Exit.INVALID
    assert error.lines[0].startswith("owner: ")


@pytest.mark.parametrize("caller", [ADA, LAB_ADMIN, ADMIN], ids=lambda each: each.role)
def test_a_claim_is_given_back_by_its_tenant_and_those_above_it(
    ledger_thread: LedgerThread, caller: Caller
) -> None:
    ledger_thread.ask(ADA, "claim-nodes", SCANS)
    ledger_thread.tree(caller, "release-claim", ReleaseClaim(claim="scans"))
    assert not ledger_thread.engine.view.runs["scans"].leases


def test_a_claim_that_may_not_be_seen_is_refused_like_one_that_is_not_there(
    ledger_thread: LedgerThread,
) -> None:
    ledger_thread.ask(ADA, "claim-nodes", SCANS)
    hidden = ledger_thread.refused(BEN, "release-claim", ReleaseClaim(claim="scans"))
    absent = ledger_thread.refused(BEN, "release-claim", ReleaseClaim(claim="scant"))
    assert (hidden.code, hidden.fault) == (absent.code, absent.fault)
    assert hidden.fault == "unknown-name"
    assert [line.replace("scans", "scant") for line in hidden.lines] == list(absent.lines)
    assert ledger_thread.refused(AUDITOR, "release-claim", ReleaseClaim(claim="scans")).fault == (
        "forbidden"
    )


# --- conflicts and time ---


@pytest.mark.heavy
def test_a_dry_run_tells_the_contest_and_the_real_one_what_was_recorded(
    ledger_thread: LedgerThread,
) -> None:
    dry = Resolve(flavor="H100", deficit=8, domains=("A", "B"), dry_run=True)
    before = ledger_thread.engine.head
    told = ledger_thread.tree(ADMIN, "resolve", dry)
    assert set(told) == {"dryRun", "contest"}
    assert told["contest"]["deficit"] == RESOLVE.deficit
    assert ledger_thread.lines(ADMIN, "resolve", dry)[-1] == "dry run: nothing was recorded"
    assert ledger_thread.engine.head == before
    real = ledger_thread.tree(ADMIN, "resolve", RESOLVE)
    assert [event["tag"] for event in real["events"]] == ["conflict-declared/1"]
    again = ledger_thread.lines(ADMIN, "resolve", RESOLVE)
    assert again[0].startswith("a conflict over this scope is open already")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Resolve(flavor="H100", deficit=1, pool="x"), "no pool 'x'; there are: default"),
        (Resolve(flavor="B200", deficit=1), "no node of flavor 'B200'; there are: H100"),
        (Resolve(flavor="H100", deficit=1, domains=("Q",)), "domain 'Q'; there are: r/c/A, r/c/B"),
    ],
)
def test_a_scope_that_is_not_there_is_an_unknown_name(
    ledger_thread: LedgerThread, asked: Resolve, text: str
) -> None:
    error = ledger_thread.refused(ADMIN, "resolve", asked)
    assert error.fault == "unknown-name"
    assert text in error.lines[0]


def test_without_a_pool_room_is_made_in_the_only_one_that_has_the_flavor(
    ledger_thread: LedgerThread,
) -> None:
    def apply(*specs: Applied) -> None:
        done = ledger_thread.engine.execute(Apply(specs), actor="test")
        assert not done.decision.refusals

    def b200(pool: str) -> Node:
        return structs.replace(node(f"b-{pool}", flavor="B200"), labels=(("room", pool),))

    apply(*(Pool(name=each, selector=(("room", each),)) for each in ("batch", "night")))
    apply(b200("batch"))
    asked = Resolve(flavor="B200", deficit=8, dry_run=True)
    assert "B200 in pool batch;" in ledger_thread.refused(ADMIN, "resolve", asked).lines[0]
    apply(b200("night"))
    unclear = ledger_thread.refused(ADMIN, "resolve", asked).lines[0]
    assert unclear == ("several pools have B200; name one with pool=NAME; there are: batch, night")
    apply(b200("neither"))
    assert "B200 in pool default;" in ledger_thread.refused(ADMIN, "resolve", asked).lines[0]


def test_a_tick_does_what_is_due_and_else_says_when_something_will_be(
    ledger_thread: LedgerThread,
) -> None:
    claim = ClaimNodes(name="x", flavor="H100", nodes=1, duration="2h", owner="vision")
    ledger_thread.ask(ADMIN, "claim-nodes", claim)
    idle = ledger_thread.lines(ADMIN, "tick", Tick())
    assert idle[0].startswith("nothing is due before ")
    ledger_thread.clock.ms += 3 * HOUR_MS
    done = ledger_thread.lines(ADMIN, "tick", Tick())
    assert "run/x completed" in done


def test_a_run_of_another_tenant_is_no_claim_to_be_found(ledger_thread: LedgerThread) -> None:
    ledger_thread.engine.execute(Submit(run("quiet", 1, "vision", user="ada")), actor="test")
    assert ledger_thread.refused(BEN, "release-claim", ReleaseClaim(claim="quiet")).fault == (
        "unknown-name"
    )
    assert (
        ledger_thread.refused(ADA, "release-claim", ReleaseClaim(claim="quiet")).fault == "conflict"
    )
