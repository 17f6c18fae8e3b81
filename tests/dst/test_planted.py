"""The simulation has teeth: bugs that are planted on purpose are found by the default seeds.

Each is one line or two of a copy of the sources, changed; where a line is not there any more, the
test says so. Which seed finds what is printed (``-s``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = 50
ONE_BUG_S: Final = 900
"""How long the search for one bug may take, on a machine with much other work."""
WATCH: Final = """
import sys
from quorate.testing.inspection import inspect
for seed in range(int(sys.argv[1])):
    failure = inspect(seed).failure
    if failure:
        print(seed, failure.strip().splitlines()[-1][:160])
        sys.exit(0)
sys.exit(3)
"""


@dataclass(frozen=True, slots=True)
class Bug:
    """A mistake: ``right`` stands once in a file of the sources, and ``wrong`` in its place."""

    name: str
    file: str
    right: str
    wrong: str


BUGS: Final = (
    Bug(
        "skip a cap",
        "core/purse.py",
        "gpus = min(gpus, cap.spec.concurrency_max - used)",
        "gpus = min(gpus, cap.spec.concurrency_max - used + 1)",
    ),
    Bug(
        "forget a hold",
        "model/apply_plans.py",
        "        state.deferred.pop(event.run, None)\n    _hold_shares(state, event.payers, 1)\n",
        "        state.deferred.pop(event.run, None)\n",
    ),
    Bug(
        "cut below the minimum",
        "core/survey.py",
        "            if fact.bundle:\n",
        "            if fact.role is not _SPARE:\n",
    ),
    Bug(
        "start on room that is firm for others",
        "core/planning/walk.py",
        "        return room_beside(view, self.profile, run, scribe.now_ms, until_ms)\n",
        "        return view\n",
    ),
    Bug(
        "drop a spare's hold",
        "model/apply_plans.py",
        "    hold_money(state, pledge.payer, pledge.tier, sign * pledge.hold_gpu_ms)\n",
        "",
    ),
    Bug(
        "leave an owner out of the lottery",
        "core/cuts.py",
        "record.since_ms is None or not enters(record):",
        "record.since_ms is None or not enters(record) or record.spec.owner == 'ant':",
    ),
    Bug(
        "draw the first owner twice as often",
        "core/lottery.py",
        "        owner = owners.pop(draws.below(len(owners)))\n",
        "        owner = owners.pop(draws.below(len(owners) + 1) % len(owners))\n",
    ),
    Bug(
        "start a lease twice",
        "core/starts.py",
        "    for number, draft in enumerate(drafts, start=leases_ever):\n",
        "    for number, draft in enumerate(drafts, start=leases_ever % 3):\n",
    ),
    Bug(
        "let the wrong line pay",
        "core/purse.py",
        "account.gpus_active >= spec.concurrency or not matches(spec.selector, labels):",
        "account.gpus_active >= spec.concurrency:",
    ),
    Bug(
        "give slots away before they are free",
        "core/stops.py",
        "    if not scribe.has_executor or _is_fenced(scribe.view, lease):\n",
        "    if not scribe.has_executor or lease.gpus == 1 or _is_fenced(scribe.view, lease):\n",
    ),
    Bug(
        "let a backfilled bundle stay",
        "core/planning/overstay.py",
        "            stop_bundle(scribe, run, bundle, EndReason.OVERSTAYED)\n",
        "            del bundle\n",
    ),
    Bug(
        "let a later run delay a reservation",
        "core/planning/room.py",
        "    return max(0, room - max(0, least))\n",
        "    return max(0, room - 1 - max(0, least))\n",
    ),
    Bug(
        "carry a request out twice",
        "core/requests.py",
        "    if known is None or known.is_forgotten(now_ms):\n",
        "    if known is None or known.is_forgotten(now_ms + 23 * HOUR_MS):\n",
    ),
    Bug(
        "answer a repeated request with too little",
        "loop/engine.py",
        "        first_seq = record.seq - record.count\n",
        "        first_seq = record.seq - min(record.count, 2)\n",
    ),
    Bug(
        "leave a removed tenant its tokens",
        "core/tenants.py",
        "    tokens = revoke_of_tenant(scribe, name)\n",
        "    tokens = revoke_of_tenant(scribe, name) if name == 'owl' else ()\n",
    ),
    Bug(
        "skip a node quota",
        "core/quota.py",
        "            if current + new > limit:\n",
        "            if current + new > limit + 1:\n",
    ),
    Bug(
        "forget to count a descendant",
        "model/holdings.py",
        "                for name in lineage(self._owners, owner)\n",
        "                for name in lineage(self._owners, owner)[:1]\n",
    ),
    Bug(
        "take a node for clean that is not",
        "core/claims.py",
        "                is_clean=is_clean,\n",
        "                is_clean=True,\n",
    ),
    Bug(
        "skip the size of the sensitive pool",
        "core/claims.py",
        "current + nodes <= limit:",
        "current + nodes <= limit + 1:",
    ),
    Bug(
        "drain a claim",
        "core/failure.py",
        "            continue  # A claim is never cut: its nodes are empty when it is over.\n",
        "            pass\n",
    ),
    Bug(
        "wake nobody",
        "core/quota.py",
        "    owners = _relieved(view, scribe.events)\n",
        "    owners = _relieved(view, scribe.events[:0])\n",
    ),
    Bug(
        "forget whose use has changed",
        "model/apply.py",
        "        state.use_changed(owner)\n",
        "        pass\n",
    ),
)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_every_planted_bug_is_found_within_the_default_seeds(tmp_path: Path) -> None:
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(lambda bug: _found(bug, tmp_path / bug.name), BUGS))
    for bug, line in zip(BUGS, found, strict=True):
        print(f"{bug.name}: {line}")  # noqa: T201 - shown with -s
    missed = [bug.name for bug, line in zip(BUGS, found, strict=True) if not line]
    assert not missed, f"not found in {SEEDS} seeds: {missed}"


def _found(bug: Bug, folder: Path) -> str:
    """Return the seed that finds ``bug``, and how; nothing where none does."""
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "quorate" / bug.file
    text = path.read_text("utf-8")
    assert text.count(bug.right) == 1, f"{bug.name}: {bug.file} has no longer just one {bug.right}"
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
