"""``calc pack``: a placement for a number of GPUs, ``classic`` or, if asked for, ``tight``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.calc.world_fleet import fleet_state, read_fleet
from quorate.calc.world_reader import any_whole, open_world, settle
from quorate.core.admission.layout import Bundle, PackRequest, cut
from quorate.core.admission.pack import PlacedGroup, pack_gang, residual
from quorate.documents import values
from quorate.documents.field_reader import At, fields_of
from quorate.documents.labels import place_selector
from quorate.model.events import Slots
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.selector import Selector
from quorate.model.specs import DEFAULT_POOL, Placement
from quorate.views.refusal_answer import error, invalid_request

_PACK: Final = frozenset(
    {
        "totalGPUs",
        "groupGPUs",
        "allowCrossGroupSpread",
        "sparesPerGroup",
        "selector",
        "placement",
        "wholeNodes",
    }
)
_placement = values.choice(Placement)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The GPUs to place. ``fault`` checks the numbers."""

    gpus: int
    group_gpus: int | None
    spread: bool
    spares: int
    selector: Selector
    placement: Placement | None
    whole_nodes: bool

    def fault(self) -> str | None:
        """Return the first invalid number as a text; None if all are valid."""
        if self.gpus <= 0:
            return f"totalGPUs must be positive, got {self.gpus}"
        if self.group_gpus is not None and self.group_gpus <= 0:
            return f"groupGPUs must be positive when set, got {self.group_gpus}"
        if self.spares < 0:
            return f"sparesPerGroup must not be negative, got {self.spares}"
        return None


def pack(world: object) -> dict[str, object]:
    """Return the groups with their nodes and spares, and the GPUs still free; or ``error``."""
    fields, at = open_world(world, ["nodes", "pack"])
    fleet = read_fleet(fields, at)
    question = fields.required("pack", _question)
    placement = fields.optional("placement", _placement, Placement.CLASSIC)
    settle(at)
    assert question is not None, world
    state = fleet_state(fleet)
    if isinstance(state, str):
        return {"error": True, "message": state}
    fault = question.fault()
    if fault is not None:
        return invalid_request(fault)
    groups = None if question.group_gpus is None else cut(question.gpus, question.group_gpus)
    request = PackRequest(
        pool=DEFAULT_POOL,
        flavor=fleet.flavor,
        bundles=(Bundle(0, question.gpus, groups),),
        spares_per_group=question.spares,
        one_domain=not question.spread,
        selector=question.selector,
        placement=question.placement or placement,
        whole_nodes=question.whole_nodes,
    )
    plan = pack_gang(state, request)
    if isinstance(plan, Refusal):
        return error(_error_name(plan, one_domain=request.one_domain), plan)
    return {
        "groups": [_group(group) for group in plan.groups],
        "residual": residual(state, request, plan),
        "totalSpares": sum(gpus for group in plan.groups for _, gpus in _counts(group.spare_slots)),
    }


def _question(value: object, at: At) -> _Question | None:
    fields = fields_of(value, at, _PACK)
    if fields is None:
        return None
    gpus = fields.required("totalGPUs", any_whole, remedy="say how many GPUs, e.g. totalGPUs: 8")
    if gpus is None:
        return None
    return _Question(
        gpus=gpus,
        group_gpus=fields.maybe("groupGPUs", any_whole),
        spread=fields.optional("allowCrossGroupSpread", values.truth, default=True),
        spares=fields.optional("sparesPerGroup", any_whole, 0),
        selector=fields.optional("selector", place_selector, ()),
        placement=fields.maybe("placement", _placement),
        whole_nodes=fields.optional("wholeNodes", values.truth, default=False),
    )


def _error_name(refusal: Refusal, *, one_domain: bool) -> str:
    """Return the short name of ``refusal``."""
    if refusal.code is RefusalCode.SEARCH_LIMIT:
        return "SearchLimit"
    return "InsufficientTopology" if one_domain else "InsufficientCapacity"


def _group(group: PlacedGroup) -> dict[str, object]:
    return {
        "index": group.index,
        "size": group.gpus,
        "domain": group.domain,
        "nodes": _counts(group.slots),
        "spareNodes": _counts(group.spare_slots),
    }


def _counts(slots: Slots) -> list[tuple[str, int]]:
    """Return the number of taken GPUs of each node, most first, then by node name."""
    return sorted(
        ((node, mask.bit_count()) for node, mask in slots), key=lambda found: (-found[1], found[0])
    )
