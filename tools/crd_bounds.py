"""The parts of CRD schemas that types do not have: values, bounds, required fields, rules.

The bounds are those of ``documents``, or looser ones where a schema cannot be exact. Rules are in
CEL. API servers older than 1.25 ignore rules. In such clusters, Quorate itself refuses resources
that break a rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from quorate.client.answer_fields import Fields
from quorate.client.resources import (
    fleet_resources,
    money_resources,
    owner_resources,
    plan_resources,
    run_resources,
)
from quorate.documents.pod_document import CPU, IMAGE, MEMORY, OBJECT_NAME, WORKLOAD
from quorate.documents.run_parts import RENDEZVOUS
from quorate.model import pod_template as pods
from quorate.model import specs
from quorate.model.amounts import GPUS_MAX
from quorate.model.mail_address import ADDRESS, ADDRESS_CHARS_MAX
from quorate.model.notice_kinds import RUN_KINDS
from quorate.model.rounds_bounds import TOTAL_STEPS_MAX, WEIGHT_MAX, WEIGHT_MIN

Tree = dict[str, Any]

_NAME: Final[Tree] = {
    "pattern": "^[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?$",
    "minLength": 1,
    "maxLength": 128,
}
_GPUS: Final[Tree] = {"minimum": 1, "maximum": GPUS_MAX}
_COUNT: Final[Tree] = {"minimum": 0, "maximum": GPUS_MAX}
_AMOUNT: Final[Tree] = {"minimum": 0}
_PART: Final[Tree] = {"minimum": 0, "maximum": 1}
_DURATION: Final[Tree] = {
    "pattern": "^([0-9]+(ms|[dhms]))+$|^P",
    "maxLength": 64,
}
_TIME: Final[Tree] = {"format": "date-time", "maxLength": 64}
_LIST: Final[Tree] = {"maxItems": 256}


def _words(words: type[StrEnum]) -> Tree:
    return {"enum": [each.value for each in words]}


def _matching(pattern: str, longest: int) -> Tree:
    return {"pattern": f"^{pattern.replace('(?:', '(')}$", "maxLength": longest}


_OBJECT: Final = _matching(OBJECT_NAME.pattern, 253)

BOUNDS: Final[Mapping[type[Fields], Mapping[str, Tree]]] = {
    run_resources.RunSpec: {
        "owner": _NAME,
        "user": {"minLength": 1, "maxLength": 256},
        "pool": _NAME,
        "spares_per_group": _COUNT,
        "replace": _words(specs.Replace),
        "on_quota": _words(specs.OnQuota),
        "processes": _words(specs.Processes),
        "command": {"minItems": 1, "maxItems": 10_000},
        "working_dir": {"minLength": 1},
        "image": _matching(IMAGE.pattern, 511),
        "workload": _matching(WORKLOAD.pattern, 511),
        "nonce": {"minLength": 1, "maxLength": 128},
        "total_steps": {"minimum": 1, "maximum": TOTAL_STEPS_MAX},
        "weight": {"minimum": WEIGHT_MIN, "maximum": WEIGHT_MAX},
        "slo": _AMOUNT,
    },
    run_resources.RunResources: {
        "gpu_type": _NAME,
        "gpu_types": {"minItems": 1, "maxItems": 64},
        "total_gpus": _GPUS,
    },
    run_resources.RunLocality: {"group_gpus": _GPUS},
    run_resources.RunMalleable: {
        "min_total_gpus": _GPUS,
        "max_total_gpus": _GPUS,
        "step_gpus": _GPUS,
        "desired_total_gpus": _GPUS,
    },
    run_resources.RunRuntime: {"expected_duration": _DURATION, "checkpoint": _DURATION},
    run_resources.RunFunding: {"max_borrow_gpus": _GPUS, "sponsors": _LIST},
    run_resources.RunFollow: {
        "after": {"minItems": 1, "maxItems": 256},
        "on_upstream_failure": _words(specs.UpstreamFailure),
        "grace": _DURATION,
    },
    run_resources.RunMail: {
        "to": _matching(ADDRESS.pattern, ADDRESS_CHARS_MAX),
        "kinds": {"minItems": 1, "maxItems": len(RUN_KINDS)},
    },
    run_resources.PodTemplate: {
        "volumes": {"maxItems": 64},
        "tolerations": {"maxItems": 64},
        "service_account_name": _OBJECT,
        "image_pull_secrets": {"maxItems": 64},
    },
    run_resources.PodVolume: {
        "mount_path": {"pattern": "^/[^:]+$", "maxLength": 1_024},
        "persistent_volume_claim": _OBJECT,
        "config_map": _OBJECT,
        "secret": _OBJECT,
        "empty_dir": _words(pods.Medium),
    },
    run_resources.PodToleration: {
        "key": {"minLength": 1, "maxLength": 253},
        "operator": _words(pods.TolerationOperator),
        "effect": _words(pods.TaintEffect),
    },
    run_resources.PodRequests: {
        "cpu": _matching(CPU.pattern, 16),
        "memory": _matching(MEMORY.pattern, 24),
    },
    money_resources.BudgetSpec: {
        "owner": _NAME,
        "envelopes": {"minItems": 1, "maxItems": 256},
        "aggregate_caps": _LIST,
    },
    money_resources.EnvelopeSpec: {
        "name": _NAME,
        "flavor": _NAME,
        "selector": {"minProperties": 1},
        "start": _TIME,
        "end": _TIME,
        "concurrency": _GPUS,
        "max_gpu_hours": _AMOUNT,
        "sharing": _words(specs.Sharing),
    },
    money_resources.LendingSpec: {
        "to": _LIST,
        "max_concurrency": _GPUS,
        "max_gpu_hours": _AMOUNT,
    },
    money_resources.Recall: {"notice": _DURATION},
    money_resources.CapSpec: {
        "name": _NAME,
        "flavor": _NAME,
        "envelopes": {"minItems": 1, "maxItems": 256},
        "max_concurrency": _GPUS,
        "max_gpu_hours": _AMOUNT,
    },
    owner_resources.OwnerSpec: {"parents": _LIST},
    owner_resources.QuotaSpec: {
        "max_nodes": _COUNT,
        "max_concurrent_runs": _COUNT,
        "gpu_hours_budget": _AMOUNT,
        "node_hours_budget": _AMOUNT,
        "fair_share_target": _PART,
        "burst_allowance": {"minimum": 1, "maximum": 1_000},
    },
    fleet_resources.PoolSpec: {
        "discipline": _words(specs.Discipline),
        "policy": _NAME,
        "placement": _words(specs.Placement),
        "round_length": _DURATION,
        "reservation_notice": _DURATION,
        "min_runtime": _DURATION,
        "cool_down": _DURATION,
        "max_grace": _DURATION,
        "disruption_rate": _PART,
        "max_collateral": _GPUS,
        "default_expected_duration": _DURATION,
        "reservation_depth": _COUNT,
        "firm_horizon": _DURATION,
        "executor": _words(specs.PoolExecutor),
        "cluster": _NAME,
    },
}
REQUIRED: Final[Mapping[type[Fields], tuple[str, ...]]] = {
    run_resources.RunSpec: ("owner", "resources"),
    run_resources.RunResources: ("total_gpus",),
    run_resources.RunMalleable: ("min_total_gpus", "max_total_gpus", "step_gpus"),
    run_resources.RunFollow: ("after",),
    run_resources.RunMail: ("to",),
    run_resources.PodVolume: ("mount_path",),
    run_resources.PodToleration: ("key",),
    money_resources.BudgetSpec: ("owner", "envelopes"),
    money_resources.EnvelopeSpec: ("name", "flavor", "selector", "start", "end", "concurrency"),
    money_resources.CapSpec: ("name", "flavor", "envelopes", "max_concurrency"),
}
_WITHIN: Final = (
    "!has(self.malleable) || (self.resources.totalGPUs >= self.malleable.minTotalGPUs && "
    "self.resources.totalGPUs <= self.malleable.maxTotalGPUs)"
)
_SOURCES: Final = "[has(self.persistentVolumeClaim), has(self.configMap), has(self.secret), "
RULES: Final[Mapping[type[Fields], tuple[tuple[str, str], ...]]] = {
    run_resources.RunSpec: (
        ("self == oldSelf", "a run cannot be changed: submit another one"),
        ("!has(self.array)", "an array is not a resource of a cluster: quorate submit -f FILE"),
        ("!has(self.podTemplate) || has(self.image)", "podTemplate needs an image"),
        (
            _WITHIN,
            "resources.totalGPUs must fall within malleable min/max",
        ),
        (
            f"!has(self.env) || !{sorted(RENDEZVOUS)}.exists(name, name in self.env)",
            "Quorate sets the variables by which processes find each other: remove them from env",
        ),
    ),
    run_resources.RunResources: (
        ("has(self.gpuType) != has(self.gpuTypes)", "give one of gpuType and gpuTypes"),
    ),
    run_resources.RunMalleable: (
        ("self.minTotalGPUs <= self.maxTotalGPUs", "minTotalGPUs must be <= maxTotalGPUs"),
        (
            "(self.maxTotalGPUs - self.minTotalGPUs) % self.stepGPUs == 0",
            "maxTotalGPUs must be whole steps above minTotalGPUs",
        ),
    ),
    run_resources.RunFollow: (
        (
            "!has(self.afterAny) && !has(self.afterTask)",
            "a resource of a cluster follows others by after alone",
        ),
    ),
    run_resources.PodVolume: (
        (
            f"{_SOURCES}has(self.emptyDir)].filter(each, each).size() == 1",
            "give exactly one of persistentVolumeClaim, configMap, secret and emptyDir",
        ),
    ),
    money_resources.EnvelopeSpec: (
        ("timestamp(self.start) < timestamp(self.end)", "start must be before end"),
    ),
    fleet_resources.PoolSpec: (
        (
            "(has(self.executor) && self.executor == 'kubernetes') == has(self.cluster)",
            "executor kubernetes and cluster go together",
        ),
        (
            "(has(self.discipline) && self.discipline == 'rounds') == has(self.policy)",
            "discipline rounds and policy go together",
        ),
    ),
    plan_resources.ReservationSpec: (("self == oldSelf", "a reservation cannot be changed"),),
    plan_resources.ConflictSpec: (("self == oldSelf", "an outcome cannot be changed"),),
}
