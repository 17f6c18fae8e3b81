"""The simulation is sensitive: planted bugs are found within fifty seeds.

Each bug changes one or two lines in a copy of the sources. If a line no longer exists, a test
fails. The seed that finds a bug is printed (``-s``). A soak plants all bugs, ``make test`` only the
first one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.oracles.effort import few_of

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = 50
ONE_BUG_S: Final = 3_600
"""The time limit of the search for one bug, on a busy machine."""
WATCH: Final = """
import sys
from quorate.sim.demand import Size
from quorate.testing.inspection import inspect
for seed in range(int(sys.argv[1])):
    for size in (Size(), Size(hours=90, runs=320, wishes=150)):
        failure = inspect(seed, size).failure
        if failure:
            print(seed, f"({size.hours} h)", failure.strip().splitlines()[-1][:160])
            sys.exit(0)
sys.exit(3)
"""
"""Plays each seed twice: a short history, and a history as long as in a soak."""


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug: ``right`` occurs once in a file of the sources, and is replaced by ``wrong``."""

    name: str
    file: str
    right: str
    wrong: str


BUGS: Final = (
    Bug(
        "skip a cap",
        "core/admission/payers.py",
        "gpus = min(gpus, cap.spec.concurrency_max - used)",
        "gpus = min(gpus, cap.spec.concurrency_max - used + 1)",
    ),
    Bug(
        "forget a hold",
        "model/state/apply_plans.py",
        "        state.deferred.pop(event.run, None)\n    _hold_shares(state, event.payers, 1)\n",
        "        state.deferred.pop(event.run, None)\n",
    ),
    Bug(
        "cut below the minimum",
        "core/preemption/scope_survey.py",
        "            if fact.bundle:\n",
        "            if fact.role is not _SPARE:\n",
    ),
    Bug(
        "start on room that is firm for others",
        "core/planning/start_now.py",
        "return room_beside(view, plan.profile, run, plan.log.now_ms, until_ms, payers=payers)\n",
        "return view\n",
    ),
    Bug(
        "drop a spare's hold",
        "model/state/apply_plans.py",
        "    hold_money(state, pledge.payer, pledge.tier, sign * pledge.hold_gpu_ms)\n",
        "",
    ),
    Bug(
        "leave an owner out of the lottery",
        "core/preemption/cut_order.py",
        "record.since_ms is None or not enters(record):",
        "record.since_ms is None or not enters(record) or record.spec.owner == 'ant':",
    ),
    Bug(
        "draw the first owner twice as often",
        "core/preemption/lottery.py",
        "        owner = owners.pop(draws.below(len(owners)))\n",
        "        owner = owners.pop(draws.below(len(owners) + 1) % len(owners))\n",
    ),
    Bug(
        "start a lease twice",
        "core/lifecycle/starts.py",
        "    for number, draft in enumerate(drafts, start=leases_ever):\n",
        "    for number, draft in enumerate(drafts, start=leases_ever % 3):\n",
    ),
    Bug(
        "let the wrong line pay",
        "core/admission/payers.py",
        "account.gpus_active >= spec.concurrency or not matches(spec.selector, labels):",
        "account.gpus_active >= spec.concurrency:",
    ),
    Bug(
        "give slots away before they are free",
        "core/lifecycle/stops.py",
        "    if not log.has_executor or _is_fenced(log.view, lease):\n",
        "    if not log.has_executor or lease.gpus == 1 or _is_fenced(log.view, lease):\n",
    ),
    Bug(
        "let a backfilled bundle stay",
        "core/planning/overstay.py",
        "            stop_bundle(log, run, bundle, EndReason.OVERSTAYED)\n",
        "            del bundle\n",
    ),
    Bug(
        "let a later run delay a reservation",
        "core/profile/room_left.py",
        "    return max(0, room - max(0, least))\n",
        "    return max(0, room - 1 - max(0, least))\n",
    ),
    Bug(
        "carry a request out twice",
        "core/idempotency.py",
        "    if request is None or request.is_forgotten(now_ms):\n",
        "    if request is None or request.is_forgotten(now_ms + 23 * HOUR_MS):\n",
    ),
    Bug(
        "answer a repeated request with too little",
        "loop/engine.py",
        "        first_seq = record.seq - record.count\n",
        "        first_seq = record.seq - min(record.count, 2)\n",
    ),
    Bug(
        "leave a removed tenant its tokens",
        "core/tenancy/tenant_commands.py",
        "    tokens = revoke_of_tenant(log, name)\n",
        "    tokens = revoke_of_tenant(log, name) if name == 'owl' else ()\n",
    ),
    Bug(
        "skip a node quota",
        "core/admission/hard_quota.py",
        "            if current + new > limit:\n",
        "            if current + new > limit + 1:\n",
    ),
    Bug(
        "forget to count a descendant",
        "model/state/holdings.py",
        "                for name in lineage(self._owners, owner)\n",
        "                for name in lineage(self._owners, owner)[:1]\n",
    ),
    Bug(
        "take a node for clean that is not",
        "core/lifecycle/sensitive_claims.py",
        "                is_clean=is_clean,\n",
        "                is_clean=True,\n",
    ),
    Bug(
        "skip the size of the sensitive pool",
        "core/lifecycle/sensitive_claims.py",
        "current + nodes <= limit:",
        "current + nodes <= limit + 1:",
    ),
    Bug(
        "drain a claim",
        "core/lifecycle/failure.py",
        "            continue  # No drain cuts a claim; the node is empty when the claim ends.\n",
        "            pass\n",
    ),
    Bug(
        "never try again what waits for a quota",
        "core/planning/queue_walk.py",
        "        self._left.looked_at.append(run.name)\n",
        "        if record.quota_blocker is not None:\n            return\n",
    ),
    Bug(
        "forget whose use has changed",
        "model/state/apply_event.py",
        "        state.use_changed(owner)\n",
        "        pass\n",
    ),
    # Bugs that the planner before this one had.
    Bug(
        "(a) stop an overstayer only for reservations that were there when it started",
        "core/planning/overstay.py",
        "    if waits is None or not waits.is_before(late.mark):\n",
        "    if waits is None or record.seq > late.mark.seq:\n",
    ),
    Bug(
        "(b) stop an overstayer when a reservation was first to start",
        "core/planning/overstay.py",
        "        for _, record in in_order(view)\n        if record.planned_start_ms is not None\n",
        """        for _, known in in_order(view)
        if (record := known.copy()).planned_start_ms is not None
        and setattr(record, "planned_start_ms", record.made.planned_start_ms) is None
""",
    ),
    Bug(
        "(c) cut what overstayed in front of no reservation that is there",
        "core/preemption/cut_order.py",
        "                if any(waits.is_before(mark) for waits in waiting):\n",
        "                if waiting:\n",
    ),
    Bug(
        "(d) move a due start on at the instant at which its room is to come free",
        "core/planning/queue_walk.py",
        "        if is_late and not promise.by_conflict and not waits_for_ends:\n",
        "        if is_due and not promise.by_conflict:\n",
    ),
    Bug(
        "(e) move a reservation into the time of a later one",
        "core/planning/firm_walk.py",
        "            plan.lift_pin(pin)\n            aside.append((record, pin))\n",
        "            plan.lift_pin(pin)\n"
        "            self._move(record, pin, cause_of(plan.profile, pin))\n",
    ),
    Bug(
        "(f) promise the same room twice",
        "core/planning/firm_or_tentative.py",
        "        plan.profile.put(entry)\n        if later is not None:\n",
        "        _ = is_firm or plan.profile.put(entry)\n        if later is not None:\n",
    ),
    # Bugs that a review of the planner found.
    Bug(
        "promise the same payer twice",
        "core/profile/profile.py",
        """needs += (("envelope", key, self.payer(key), gpus) for key, gpus in paid.items())""",
        """needs += (("envelope", key, self.payer(key), 0) for key in paid)""",
    ),
    Bug(
        "name a budget as the cause whatever the cause is",
        "core/planning/move_causes.py",
        "    return _first(found)\n",
        """    return MoveCause(
        MoveCode.BUDGET_CHANGED, tuple(("envelope", share.payer) for share in pin.shares)
    )
""",
    ),
    Bug(
        "record a place in racks where it was counted",
        "core/planning/start_search.py",
        "before_ms) if real is None else real\n",
        "before_ms) if real is None else found\n",
    ),
    Bug(
        "count on stopping what has gone by then anyway",
        "core/planning/overstay.py",
        """        if (end_ms := bundle_end_ms(profile, each))
        > (gone_ms := _gone_ms(profile, each, pin, has_executor=has_executor))
    ]
""",
        """        if (end_ms := FOREVER_MS)
        > (gone_ms := _gone_ms(profile, each, pin, has_executor=has_executor))
    ]
""",
    ),
)


@pytest.mark.slow
@pytest.mark.timeout(ONE_BUG_S + 60)
@pytest.mark.parametrize("bug", few_of(BUGS, 1), ids=lambda bug: bug.name)
def test_a_planted_bug_is_found_within_fifty_seeds(bug: Bug, tmp_path: Path) -> None:
    found = _found(bug, tmp_path / bug.name)
    print(f"{bug.name}: {found}")  # noqa: T201 - shown with -s
    assert found, f"not found in {SEEDS} seeds"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_what_a_bug_is_planted_in_is_there_once(bug: Bug) -> None:
    text = (ROOT / "src" / "quorate" / bug.file).read_text("utf-8")
    assert text.count(bug.right) == 1, f"{bug.file} has no longer just one {bug.right}"


def _found(bug: Bug, folder: Path) -> str:
    """Return the seed that finds ``bug``, and how; empty if no seed finds it."""
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "quorate" / bug.file
    text = path.read_text("utf-8")
    path.write_text(text.replace(bug.right, bug.wrong), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", WATCH, str(SEEDS)],
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=ONE_BUG_S,
    )
    assert done.returncode in (0, 3), done.stderr
    return f"seed {done.stdout.strip()}" if done.returncode == 0 else ""
