"""For any values in a world, the answer is JSON or a ``CalcInputError`` with a path."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.calc import CalcInputError, run
from tests.unit.calc.drawn import budget, envelope, fleet, funds, lease, placed, question, work

WORLDS: Final[dict[str, dict[str, Any]]] = {
    "topology": {**fleet(A=16, B=8), "usage": {"a00": 3}},
    "pack": {
        **fleet(A=16, B=8),
        "usage": {"b00": 1},
        "placement": "tight",
        "pack": {
            "totalGPUs": 12,
            "groupGPUs": 4,
            "allowCrossGroupSpread": True,
            "sparesPerGroup": 1,
            "selector": {"region": "west"},
            "wholeNodes": False,
        },
    },
    "cover": funds(
        budget(
            "own",
            "me",
            envelope(
                "e",
                4,
                start="2025-01-01T00:00:00Z",
                end="2027-01-01T00:00:00Z",
                maxGPUHours=100,
                sharing="none",
                preActivation={"allowAdmission": True},
            ),
            parents=["org"],
            aggregateCaps=[
                {
                    "name": "c",
                    "flavor": "H100",
                    "envelopes": ["e"],
                    "maxConcurrency": 3,
                    "maxGPUHours": 9,
                }
            ],
        ),
        budget(
            "l",
            "lender",
            envelope("e", 9, lending={"allow": True, "to": ["m*"], "maxConcurrency": 5}),
        ),
        cover=question(
            6,
            allowBorrow=True,
            maxBorrowGPUs=4,
            sponsors=["lender"],
            run="ns/r",
            expectedDuration="2h",
        ),
        runs=[{"name": "r", "namespace": "ns", "owner": "me"}],
        leases=[lease("l/e", 1, run="ns/r", end="2026-01-01T11:30:00Z")],
        owners=[{"name": "org", "parents": []}],
    ),
    "bind": {
        "bind": {
            "groups": [
                {
                    "index": 0,
                    "size": 4,
                    "nodes": [["n", 4]],
                    "spares": 1,
                    "spareNodes": [["m", 1]],
                }
            ],
            "segments": [
                {"budget": "b", "envelope": "e", "owner": "o", "quantity": 5, "borrowed": False}
            ],
        }
    },
    "validate": {
        "kind": "Lease",
        "manifest": {
            "spec": {
                "owner": "me",
                "runRef": {"name": "r"},
                "slice": {"nodes": ["n1#0"], "role": "Active"},
                "interval": {"start": "2026-01-01T00:00:00Z"},
                "paidByEnvelope": "e",
                "reason": "Start",
            }
        },
    },
}

WORK: Final[dict[str, Any]] = {
    "now": "2026-01-01T12:00:00Z",
    **fleet(A=16, B=8),
    "pool": {"reservationNotice": "5m", "minRuntime": "1m", "disruptionRate": 1},
    "budgets": [budget("own", "me", envelope("e", 20)), budget("b", "you", envelope("e", 24))],
    "runs": [
        work("el", 12, malleable={"min": 8, "max": 16, "step": 4, "desired": 16}, nonce="n"),
        work("fix", 4, owner="you", spares=1, expectedDuration="2h", checkpoint="1m"),
        work("new", 16, groupGPUs=8, funding={"allowBorrow": False}, selector={"region": "west"}),
    ],
}
AT_WORK: Final[dict[str, dict[str, Any]]] = {
    "forecast": {
        **WORK,
        "leases": [
            placed("el", "a00", 8, group="0", budget="own", envelope="e"),
            placed("el", "a01", 4, group=1, budget="own", envelope="e"),
            placed("fix", "b00", 4, reason="Start"),
            placed("fix", "b00", 1, role="Spare", name="spare"),
        ],
        "forecast": {"run": "new", "packReason": "x", "coverReason": "y", "useSnapshot": True},
    },
    "resolve": {
        **WORK,
        "leases": [placed("el", "a00", 8, group="0"), placed("fix", "a01", 4)],
        "resolve": {"deficit": 6, "scope": {"fabric.domain": "A"}, "seed": "s"},
    },
    "scenario": {
        **WORK,
        "secret": "s",
        "executor": True,
        "quiet": False,
        "steps": [
            {"submit": "el"},
            {"at": "1h", "submit": work("fix", 4, owner="you")},
            {"op": "reconcile", "run": "new", "at": "2026-01-01T13:30:00Z"},
            {"shrink": {"run": "el", "gpus": 8}, "expect": {"runs": {"el": {"leases": 2}}}},
            {"confirm": {"run": "el"}},
            {"resolve": {"flavor": "H100", "deficit": 2, "domains": ["west/c/A"]}},
            {"failNode": "a00"},
            {"recover": "a00"},
            {"drain": "a01"},
            {"cancel": "fix"},
            {"apply": {"apiVersion": "quorate.dev/v1", "kind": "Owner", "metadata": {"name": "o"}}},
            {"restart": True},
            {"tick": True, "expect": {"free": {"west/c/A": {"atLeast": 0, "atMost": 16}}}},
            {"at": "5h"},
        ],
    },
}

RECORDING: Final[dict[str, Any]] = {
    "policy": "max_min_fairness_packed",
    "cluster_spec": {"v100": 1, "a100": 2},
    "num_gpus_per_server": {"v100": 1, "a100": 2},
    "worker_ids": {"v100": [[2]], "a100": [[0, 1]]},
    "seed": 3,
    "round_s": 60,
    "min_time_between_resets": 120.5,
    "jobs": [
        {"id": 0, "type": "lm", "scale_factor": 1, "total_steps": 90, "arrival": 0.0},
        {"id": 1, "type": "lm", "scale_factor": 1, "total_steps": 60, "arrival": 0.0},
    ],
    "resets": [
        {"t": 0.0, "allocation": {"0": {"a100": 0.5}, "1": {"a100": 0}, "0,1": {"a100": 0.5}}},
        {"t": 60.0, "allocation": {"0": {"a100": 1.0}}},
    ],
    "rounds": [{"reset": True, "priorities": {"a100": {"0": 1.5}}}],
    "throughputs": {
        "v100": {"('lm', 1)": {"null": 0.5, "('lm', 1)": [0.0, 0.0]}},
        "a100": {"('lm', 1)": {"null": 1.0, "('lm', 1)": [0.5, 0.5]}},
    },
}

WORLDS.update(AT_WORK, rounds=RECORDING)

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(("", "*", "2h", "2026-01-01T00:00:00Z", "e", "me", 0, -1, 1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def places(tree: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to every value in ``tree``."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(tree, dict):
        entries = list(tree.items())
    elif isinstance(tree, list):
        entries = list(enumerate(tree))
    return [at, *(place for key, value in entries for place in places(value, (*at, key)))]


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[str, Any]:
    """Draw a world with up to three values replaced."""
    kind = draw(st.sampled_from(sorted(WORLDS)))
    tree: Any = copy.deepcopy(WORLDS[kind])
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places(tree)))
        if not place:
            tree = draw(anything)
            continue
        inner = tree
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = draw(anything)
    return kind, tree


@pytest.mark.heavy
def test_unspoiled_worlds_have_answers() -> None:
    for kind, tree in WORLDS.items():
        assert "error" not in run(kind, tree), kind


def outcome(kind: str, tree: object) -> dict[str, object] | CalcInputError:
    """Return the answer or the refusal; any other error fails the test."""
    try:
        return run(kind, tree)
    except CalcInputError as error:
        return error


@given(spoiled())
def test_spoiled_world_is_answered_or_refused_by_path(drawn: tuple[str, Any]) -> None:
    found = outcome(*drawn)
    if isinstance(found, CalcInputError):
        assert found.path
        assert found.message
    else:
        json.dumps(found)


@given(anything)
def test_anything_at_all_is_answered_or_refused(tree: object) -> None:
    for kind in WORLDS:
        found = outcome(kind, tree)
        assert not isinstance(found, CalcInputError) or found.path
