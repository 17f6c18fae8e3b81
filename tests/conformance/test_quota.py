"""The facts of the quota system: each is checked on a real world here, or listed with its reason.

Cases are beside the repository, in ``../shared``, and are not part of it; without them this module
is skipped. The fields of a case choose its check, so new cases of the same kinds are checked, too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.core.commands import UpdateOwner
from quorate.core.tenancy.share_score import penalty
from quorate.model.refusal import sentence
from quorate.model.specs import Quota
from tests.cli.shell import Shell
from tests.conformance import quota_claims as claims
from tests.conformance import quota_hard as hard
from tests.conformance import quota_soft as soft
from tests.conformance.quota_listed import (
    CONFLICTS_LISTED,
    LISTED,
    PENALTY_LISTED_FROM,
    PENALTY_LISTED_TO,
    TEXTS_LISTED,
)
from tests.conformance.quota_world import Case, World, is_due, part, parts

CASES: Final = Path(__file__).parents[3] / "shared" / "conformance" / "quota"
FILES: Final = (
    "budget_ledger.json",
    "fair_share.json",
    "hard_quota.json",
    "preemption.json",
    "scheduling_and_access.json",
    "sensitive.json",
)
COUNTS: Final = {"both": 52, "doc": 1, "code": 12, "conflict": 14}
"""The number of cases of each contract, so that no case disappears unnoticed."""

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the quota cases are not beside this repository (../shared)"
)


def _read(name: str) -> Any:
    return json.loads((CASES / name).read_text("utf-8")) if CASES.is_dir() else {}


def cases() -> list[Case]:
    return [case for name in FILES for case in _read(name).get("scenarios", ())]


def _due() -> list[Case]:
    return [case for case in cases() if is_due(case) and case["id"] not in LISTED]


def _decided() -> list[Case]:
    """Return cases in which documents and code of that system disagree, with Quorate's rule."""
    found = [case for case in cases() if case["contract"] == "conflict"]
    return [case for case in found if case["id"] not in CONFLICTS_LISTED]


def _id(case: Case) -> str:
    return str(case["id"])


# --- Which case is checked by what ---

CHECKS: Final[Mapping[tuple[str, str], Callable[[Case], None]]] = {
    ("hard quotas", "submit"): hard.check_submit,
    ("hard quotas", "assign"): hard.check_assign,
    ("hard quotas", "update_tenant"): hard.check_update,
    ("hard quotas", "order"): hard.check_order,
    ("hard quotas", "use"): hard.check_pools,
    ("hard quotas", "next_cycle"): hard.check_race,
    ("hard quotas", "delete_tenant"): hard.check_delete,
    ("budgets and ledger", "period_days"): soft.check_usage,
    ("budgets and ledger", "cycle"): soft.check_cycle,
    ("budgets and ledger", "submit"): soft.check_soft_submit,
    ("fair share and burst", "score"): soft.check_score,
    ("fair share and burst", "effective_target"): soft.check_effective,
    ("fair share and burst", "usage"): soft.check_shares,
    ("sensitive workloads", "claim"): claims.check_claim,
    ("sensitive workloads", "epilogue"): claims.check_epilogue,
    ("sensitive workloads", "borrow"): claims.check_borrow,
    ("sensitive workloads", "release"): claims.check_release,
    ("cycle, borrowing, accounting, roles", "cycle"): hard.check_ageing,
    ("cycle, borrowing, accounting, roles", "borrow"): hard.check_lending,
}
TYPED: Final[Mapping[str, Callable[[Case, Shell], None]]] = {
    "GET": soft.check_rest,
    "cli": soft.check_typed,
}


def _check(case: Case, shell: Shell) -> None:
    (domain,) = (_read(n)["domain"] for n in FILES if case in _read(n)["scenarios"])
    what = next(iter(case["when"]))
    if what in TYPED:
        TYPED[what](case, shell)
    elif domain.startswith("cycle") and what == "submit":
        (hard.check_reserved if "reservation" in case["given"] else hard.check_placed)(case)
    else:
        CHECKS[domain, what](case)


@pytest.mark.parametrize("case", _due(), ids=_id)
def test_a_fact_that_all_agree_on_holds_here(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _check(case, Shell(tmp_path, capsys))


@pytest.mark.parametrize("case", _decided(), ids=_id)
def test_where_its_documents_and_code_disagree_our_rules_decide(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _check(case, Shell(tmp_path, capsys))


@pytest.mark.parametrize("point", _read("penalty_curve.json").get("points", ()), ids=str)
def test_the_penalty_is_as_specified_at_its_corners(point: Mapping[str, float]) -> None:
    u, found = point["u"], part(penalty(parts(point["u"])))
    if PENALTY_LISTED_FROM < u < PENALTY_LISTED_TO:
        assert found < point["penalty"], "no longer decided otherwise"
        assert found == pytest.approx(0.05) if u >= 1 else 0.05 < found < 1
    else:
        assert found == pytest.approx(point["penalty"], abs=1e-9)


@pytest.mark.parametrize("text", _read("error_texts.json").get("documented", ()), ids=str)
def test_a_documented_text_is_ours_word_for_word(text: Mapping[str, str]) -> None:
    world = World(12)
    world.tenant("t", Quota(nodes_max=8))
    world.start("t", 6)
    fields = {"t": "t", "used": 6, "req": 4, "max": 8}
    match text["when"]:
        case "submit over max_nodes":
            _, decision = world.submit("t", 4)
            assert sentence(decision.refusals[0]) == text["text"].format(**fields)
        case "after reduction":
            world.do(UpdateOwner("t", (("nodes_max", 5),)))
            _, decision = world.submit("t", 4)
            assert sentence(decision.refusals[0]) == text["text"].format(**fields | {"max": 5})
        case "pending reason":
            name, _ = world.submit("t", 4, wait=True)
            refusal = world.record(name).refusal
            assert refusal is not None
            assert sentence(refusal).startswith(text["text"])
        case other:
            assert other in TEXTS_LISTED


def test_every_case_is_checked_or_listed_and_no_list_is_stale() -> None:
    found = cases()
    assert Counter(case["contract"] for case in found) == COUNTS
    ids = {case["id"] for case in found}
    assert len(ids) == len(found)
    due = {case["id"] for case in found if is_due(case)}
    conflicts = {case["id"] for case in found if case["contract"] == "conflict"}
    assert due >= LISTED.keys()
    assert conflicts >= CONFLICTS_LISTED.keys()
    assert len(_due()) + len(LISTED) == len(due) == 53
    assert len(_decided()) + len(CONFLICTS_LISTED) == len(conflicts)
    texts = {text["when"] for text in _read("error_texts.json")["documented"]}
    assert texts >= TEXTS_LISTED.keys()
    reasons = (*LISTED.values(), *CONFLICTS_LISTED.values(), *TEXTS_LISTED.values())
    assert all(reason.startswith(("decided", "out of scope", "later")) for reason in reasons)
