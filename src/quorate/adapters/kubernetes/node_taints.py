"""The taints of a node: which keep new pods away, and which evict running pods. Pure.

Quorate binds pods itself, so no scheduler checks taints first. Taints by which Kubernetes marks a
node as not ready, cordoned or out of service are left out, because Quorate reads these states
elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.model.pod_template import PodTemplate, TaintEffect, Toleration, TolerationOperator

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""The taint that an administrator sets on a node that is shut down for good or broken."""
_READ_ELSEWHERE: Final = frozenset(
    {
        OUT_OF_SERVICE,
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/unschedulable",
    }
)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that keeps away pods that do not tolerate it."""

    key: str
    effect: TaintEffect
    value: str = ""

    def __str__(self) -> str:
        said = f"{self.key}={self.value}" if self.value else self.key
        return f"{said}:{self.effect}"

    @property
    def is_ending_pods(self) -> bool:
        """Whether the taint evicts running pods."""
        return self.effect is TaintEffect.NO_EXECUTE


def taints_of(tree: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Return the taints of a Node object that keep pods away; taints that evict pods come first."""
    found: list[Taint] = []
    for each in (tree.get("spec") or {}).get("taints") or []:
        key, effect = str(each.get("key") or ""), each.get("effect")
        if key in _READ_ELSEWHERE:
            continue
        if effect in (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE):
            found.append(Taint(key, TaintEffect(effect), str(each.get("value") or "")))
    return tuple(sorted(found, key=lambda taint: (not taint.is_ending_pods, taint.key)))


def closing(taints: Iterable[Taint], tolerated: Collection[str]) -> Taint | None:
    """Return the most severe taint whose key is not ``tolerated``; None if there is none."""
    return next((each for each in taints if each.key not in tolerated), None)


def stays_beside(template: PodTemplate | None, taint: Taint) -> bool:
    """Return whether pods of ``template`` tolerate a taint."""
    return template is not None and any(_tolerates(each, taint) for each in template.tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in (None, taint.effect) or toleration.key != taint.key:
        return False
    return toleration.operator is TolerationOperator.EXISTS or toleration.value == taint.value
