"""Cases of Jobtree that Quorate answers differently: why (docs/design/choices.md), and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

NOT_OURS: Final = {
    "earliestStart": "a formula there (a lead and so much for each GPU); found here",
    "countdownSeconds": "counts down to a formula's start",
    "confidence": "says which formula was used; here, what a start rests on",
    "remedies": "a fixed sentence there; here only what a dry run has proven",
    "activePodGPUs": "pods that are wanted and not yet leased; a start is one commit here",
    "podReasons": "as activePodGPUs",
    "checkpointDeadline": "a lost run fails there unless it comes back in time; here it waits",
    "followDeadline": "wait waits here, and only fail has a grace",
}
"""Fields of forecasts and scenarios that depend on Jobtree's formulas or objects, and why."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """Why the answer to a case differs (docs/design/choices.md), and the answer (a subset)."""

    reason: str
    answer: dict[str, Any]


DEVIATIONS: Final = {
    "pack/spares-fallback-domain": Deviation(
        "spares in another domain: never",
        {
            "error": "InsufficientCapacity",
            "refusal": {
                "code": "insufficient-capacity",
                "wanted": 36,
                "short": 2,
                "shortages": [{"where": "us-west/gpu-a/A", "wanted": 36, "available": 34}],
            },
        },
    ),
    "cover/phase-order": Deviation(
        "an envelope never pays for nodes outside its selector (own-east); cousins never pay",
        {
            "error": "InsufficientCapacity",
            "refusal": {
                "code": "insufficient-funds",
                "wanted": 6,
                "short": 2,
                "shortages": [
                    {"where": "us-west", "wanted": 6, "available": 4},
                    {"where": "b-own/own", "available": 1},
                    {"where": "b-sib/sib", "available": 1},
                    {"where": "b-par/par", "available": 1},
                    {"where": "b-spon/spon", "available": 1},
                ],
            },
        },
    ),
    "cover/aggregate-two-envelopes-over": Deviation(
        "a cap bounds what one decision takes too",
        {
            "error": "InsufficientCapacity",
            "refusal": {"code": "insufficient-funds", "wanted": 20, "short": 8},
        },
    ),
    "validate/run/role-width-mismatch": Deviation(
        "roles and pod templates of Jobtree's newest revision: not here, a run has one command",
        {
            "ok": False,
            "problems": [
                {
                    "path": "spec.roles",
                    "message": "unknown field 'roles'",
                    "remedy": "a run has one command: write command, env and workingDir",
                }
            ],
        },
    ),
    "forecast/deficit-respects-ranking": Deviation(
        "no number ranks anybody, and the world has no node",
        {"deficit": 8, "payingEnvelope": "west", "refusal": {"code": "no-nodes"}},
    ),
    "forecast/headroom-excludes-family": Deviation(
        "the family pays too (what is short is nodes: the world has none)",
        {"deficit": 16, "payingEnvelope": "west", "refusal": {"code": "no-nodes"}},
    ),
    "resolve/shrink-stops-at-min": Deviation(
        "token = the bundle: malleable with min = max gives no immunity (noted as a quirk)",
        {
            "deficit": 8,
            "victims": ["team/el"],
            "actions": [{"kind": "Lottery", "gpus": 8}, {"kind": "Lottery", "gpus": 8}],
        },
    ),
    "resolve/spare-double-count": Deviation(
        "spares counted twice: never; 12 of 13 are freed by cuts, so the core is drawn too",
        {
            "deficit": 13,
            "short": 1,
            "actions": [
                {"kind": "DropSpare", "lease": "el-0-spare"},
                {"kind": "Shrink", "lease": "el-1"},
                {"kind": "Shrink", "lease": "el-1-spare"},
                {"kind": "Lottery", "lease": "el-0"},
            ],
        },
    ),
    "scenario/borrow-limit-reserves": Deviation(
        "where no plan can help a run is parked with its refusal",
        {
            "trace": [
                {
                    "runs": {
                        "default/train-128": {
                            "phase": "Pending",
                            "pendingReservation": False,
                            "refusal": {"code": "borrow-limit", "wanted": 128, "short": 56},
                        }
                    },
                    "reservations": {},
                }
            ]
        },
    ),
    "scenario/budget-only-shortfall-promises": Deviation(
        "nothing runs that nobody pays for: it waits for money",
        {
            "trace": [
                *({} for _ in range(5)),
                {
                    "runs": {
                        "default/blocked": {"phase": "Pending", "openLeaseGPUs": 0},
                        "default/hog": {"phase": "Running", "openLeaseGPUs": 4},
                    },
                    "reservations": {
                        "default/blocked": {
                            "state": "Pending",
                            "byConflict": False,
                            "deficit": 4,
                            "reason": "budget headroom short by 4 GPUs",
                        }
                    },
                },
                {},
            ]
        },
    ),
    "scenario/capacity-missing-reserves": Deviation(
        "where no plan can help a run is parked with its refusal",
        {
            "trace": [
                {
                    "runs": {
                        "default/train-8": {
                            "phase": "Pending",
                            "pendingReservation": False,
                            "refusal": {"code": "insufficient-capacity", "short": 4},
                        }
                    }
                }
            ]
        },
    ),
    "scenario/flagship-derivation-head": Deviation(
        "a conflict may span several domains (noted as a defect); a deficit is per domain",
        {
            "trace": [
                {},
                {},
                {"reservations": {"rai/big": {"deficit": 16, "byConflict": True}}},
                {
                    "runs": {
                        "tf/filler": {"phase": "Pending", "closedLeaseGPUs": {"RandomPreempt": 24}},
                        "rai/big": {
                            "phase": "Running",
                            "domains": {"us-west/gpu-a/A": 64, "us-west/gpu-a/B": 64},
                        },
                    }
                },
            ]
        },
    ),
    "scenario/follow-deleted-upstream": Deviation(
        "a run follows runs that are there: the door refuses it",
        {"trace": [{"runs": {}, "refusals": [{"code": "unknown-name"}]}]},
    ),
    "scenario/follow-grace": Deviation(
        "wait waits, and only fail has a grace",
        {"trace": [{}, {}, {"runs": {"default/train": {"phase": "Waiting"}}}]},
    ),
    "scenario/follow-policy-fail": Deviation(
        "the same end in other words",
        {
            "trace": [
                {
                    "runs": {
                        "default/train": {
                            "phase": "Failed",
                            "message": "run default/data-prep, which it follows, failed",
                        }
                    }
                }
            ]
        },
    ),
    "scenario/follow-wait-then-admit": Deviation(
        "a start is one commit: nothing waits for pods",
        {
            "trace": [
                {},
                {},
                {"runs": {"default/train": {"phase": "Running", "openLeaseGPUs": 4}}},
            ]
        },
    ),
    "scenario/node-failure-checkpoint-grace": Deviation(
        "a lost run waits in its place, and starts as soon as there is room",
        {
            "trace": [
                {},
                {"runs": {"default/run": {"phase": "Pending", "openLeaseGPUs": 0}}},
                {"runs": {"default/run": {"phase": "Running", "openLeaseGPUs": 4}}},
                {},
            ]
        },
    ),
    "scenario/node-failure-no-checkpoint": Deviation(
        "a lost run waits in its place: the node failed, and not the work",
        {
            "trace": [
                {},
                {"runs": {"default/run": {"phase": "Pending", "closedLeaseGPUs": {"Fail": 4}}}},
            ]
        },
    ),
    "scenario/owner-recall-reclaims": Deviation(
        "what was promised stays promised: a family's money is not recalled",
        {
            "trace": [
                {},
                {},
                {},
                {
                    "runs": {
                        "org/landlord": {"phase": "Pending", "openLeaseGPUs": 0},
                        "default/squatter": {"phase": "Running", "openLeaseGPUs": 6},
                    }
                },
            ]
        },
    ),
    "scenario/probe-grow-storm": Deviation(
        "never twice for one gap (noted as a defect)",
        {"trace": [{}, {}, {}, {"runs": {"default/train": {"width": {"allocated": 160}}}}]},
    ),
    "scenario/worked-1-head": Deviation(
        "token = the bundle: a malleable run's core may be drawn too, and ends the run",
        {
            "trace": [
                *({} for _ in range(4)),
                {"reservations": {"tb/j4": {"deficit": 18, "byConflict": True}}},
                {
                    "runs": {
                        "ta/j1": {"phase": "Running", "openLeaseGPUs": 32},
                        "tb/j2": {"closedLeaseGPUs": {"Shrink": 16}},
                        "tb/j4": {"phase": "Running", "openLeaseGPUs": 32},
                    },
                    "reservations": {"tb/j4": {"state": "Released"}},
                    "conflicts": [{"deficit": 18, "short": 2}],
                },
            ]
        },
    ),
    "scenario/worked-2-head": Deviation(
        "a malleable run's minimum is a token: 64 of 68 can be drawn for a deficit of 60",
        {
            "trace": [
                *({} for _ in range(5)),
                {"reservations": {"vis/mm3": {"deficit": 60}}},
                {
                    "runs": {
                        "vis/mm3": {"phase": "Running", "openLeaseGPUs": 64},
                        "aud/mm2": {"phase": "Running", "openLeaseGPUs": 4},
                    },
                    "conflicts": [{"deficit": 60, "victims": ["sys/ra2", "vis/mm1"]}],
                },
            ]
        },
    ),
    "scenario/worked-3-head": Deviation(
        "a run may take a spare's slots",
        {
            "trace": [
                {},
                {},
                {
                    "runs": {
                        "beta/j2": {"phase": "Running", "openLeaseGPUs": 8},
                        "alpha/j1": {"filledGPUs": 4},
                    }
                },
            ]
        },
    ),
    "scenario/activation-runs-resolver@16fc4f1": Deviation(
        "a victim waits again in its place; which of the two tokens is drawn is chance",
        {
            "trace": [
                *({} for _ in range(3)),
                {"reservations": {"default/run-c": {"deficit": 16, "byConflict": True}}},
                {
                    "runs": {
                        "default/run-b": {"closedLeaseGPUs": {"Shrink": 8}},
                        "default/run-c": {"phase": "Running", "openLeaseGPUs": 16},
                    },
                    "conflicts": [{"deficit": 16, "short": 8}],
                },
            ]
        },
    ),
    "scenario/elastic-grow-and-shrink@16fc4f1": Deviation(
        "all the steps that can be placed and paid come at once, when the run starts",
        {
            "trace": [
                {"runs": {"default/train": {"message": "grew to 160 GPUs"}}},
                {"runs": {"default/train": {"message": "grew to 160 GPUs"}}},
                {},
                {
                    "runs": {
                        "default/train": {
                            "message": "shrunk to 96 GPUs",
                            "width": {"desired": 96, "allocated": 96},
                            "closedLeaseGPUs": {"Shrink": 64},
                        }
                    }
                },
            ]
        },
    ),
}

FOUND: Final[dict[str, dict[str, Any]]] = {
    "forecast/capacity-deficit": {
        "plannedStart": None,
        "remedies": ["the copy starts now with 4 GPUs, paid by team/west 4"],
    },
    "forecast/lead-deficit-0": {"startsNow": True, "plannedStart": "2024-01-01T00:00:00Z"},
    "forecast/lead-deficit-100": {"plannedStart": None},
    "forecast/lead-deficit-500": {"plannedStart": None},
    "forecast/remedies-bare": {"plannedStart": None, "remedies": []},
    "scenario/probe-reservation-slips": {
        "trace": [
            {"runs": {"default/train-8": {"earliestStart": None}}, "reservations": {}},
            {"runs": {"default/train-8": {"earliestStart": None}}, "reservations": {}},
        ]
    },
    "scenario/future-window-reserves": {
        "trace": [{"reservations": {"default/train-8": {"plannedStart": "2024-01-01T12:00:00Z"}}}]
    },
    "scenario/future-window-reserves@16fc4f1": {
        "trace": [{"reservations": {"default/train-8": {"plannedStart": "2024-01-01T12:00:00Z"}}}]
    },
}
"""Quorate's answer to cases that differ only in fields of ``NOT_OURS``."""
