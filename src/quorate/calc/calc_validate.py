"""``calc validate``: checks a manifest, and reports all its faults."""

from __future__ import annotations

from typing import Final

from quorate.calc.lease_form import lease_problems
from quorate.calc.world_reader import settle, without_nulls
from quorate.documents import KINDS, Invalid, Problem, parse_tree
from quorate.documents.document_problem import CalcInputError, shown
from quorate.documents.field_reader import At, fields_of

_FIELDS: Final = frozenset({"kind", "manifest", "now"})
_RESERVATION: Final = "Reservation"
_LEASES: Final = frozenset({"Lease", "GPULease"})


def validate(world: object) -> dict[str, object]:
    """Return ``ok`` and, if ``ok`` is false, every problem with its path, message and remedy."""
    at = At((), [])
    fields_of(world, at, _FIELDS)
    settle(at)
    assert isinstance(world, dict), world
    if "manifest" not in world:
        raise CalcInputError("manifest", "is required; add the document that is to be validated")
    manifest = without_nulls(world["manifest"])
    kind = world.get("kind")
    if kind is None and isinstance(manifest, dict):
        kind = manifest.get("kind")
    known = (*KINDS, _RESERVATION, *sorted(_LEASES))
    if not isinstance(kind, str) or kind not in known:
        raise CalcInputError("kind", f"must be one of {', '.join(known)}, got {shown(kind)}")
    problems = lease_problems(manifest) if kind in _LEASES else _problems(kind, manifest)
    if not problems:
        return {"ok": True}
    return {
        "ok": False,
        "message": "; ".join(problem.sentence() for problem in problems),
        "problems": [
            {"path": problem.path, "message": problem.message, "remedy": problem.remedy}
            for problem in problems
        ],
    }


def _problems(kind: str, manifest: object) -> tuple[Problem, ...]:
    parsed = parse_tree(kind, manifest, source="manifest", lenient=True)
    return parsed.problems if isinstance(parsed, Invalid) else ()
