"""The jobs, fleet and policy of a simulation as one value, read from a file or options."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quorate.model.specs import Discipline
from quorate.sim.traces.generated import JOBS_MAX, Arrivals, Generated

GENERATE_KEYS: Final = ("lam", "seed", "jobs", "multi", "weights", "slos", "arrivals")
GAP_MAX_S: Final = 1e9
SEED_MAX: Final = 2**32 - 10
"""The largest seed of a simulation. Some random generators add a small number to the seed."""


SECONDS_MAX: Final = 31_536_000
"""The longest round, stop or time between checkpoints: a year."""
COUNT_MAX: Final = 1_000_000


class ScenarioError(ValueError):
    """A scenario cannot be played; the message names the field, its fault and the remedy."""

    def __init__(self, field: str, fault: str, remedy: str) -> None:
        self.field, self.fault, self.remedy = field, fault, remedy
        super().__init__(f"{field}: {fault}; {remedy}")

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[str, str, str]]:
        """Return the class and arguments from which another process can make the same error."""
        return ScenarioError, (self.field, self.fault, self.remedy)


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The parameters of a simulation. Fields that are None were not given.

    If ``strict``, the published mechanism is simulated; otherwise the production engine, with a
    pool of ``discipline``. If ``budgets`` is given, the budget of an owner is a part of the fleet,
    in proportion to the GPU time of the owner's jobs, times ``budgets``; otherwise each owner may
    use the whole fleet. ``depth`` is the number of waiting runs that the planner plans.
    """

    cluster: str | None = None
    policy: str | None = None
    strict: bool = False
    discipline: str = Discipline.ROUNDS.value
    trace: str | None = None
    format: str | None = None
    columns: str | None = None
    generate: str | None = None
    throughputs: str | None = None
    measure: str | None = None
    seed: int = 0
    round_s: float = 360.0
    budgets: float | None = None
    gpus_per_node: int = 8
    nodes_per_domain: int = 16
    depth: int | None = None
    conflicts: bool = True
    checkpoint_s: float = 3_600.0
    saves_at_stop: bool = True
    stop_s: float = 0.0
    record: str | None = None


FIELDS: Final = Scenario.__struct_fields__
EXAMPLES: Final[Mapping[str, str | bool | int | float]] = {
    "cluster": "v100=36,p100=36",
    "policy": "max_min_fairness",
    "strict": True,
    "discipline": "rounds",
    "trace": "jobs.csv",
    "format": "philly",
    "columns": "gpus=num_gpus,arrives_at=submitted,duration_s=ran",
    "generate": "lam=900,jobs=40",
    "throughputs": "rates.json",
    "measure": "60:100",
    "seed": 7,
    "round_s": 360.0,
    "budgets": 1.5,
    "gpus_per_node": 8,
    "nodes_per_domain": 16,
    "depth": 50,
    "conflicts": False,
    "checkpoint_s": 3_600.0,
    "saves_at_stop": True,
    "stop_s": 60.0,
    "record": "sim.db",
}
"""A value of each field, for errors about types."""
_KINDS: Final = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
_MEASURE: Final = re.compile("([0-9]{1,9}):([0-9]{1,9})")


def scenario_of(tree: object, given: Mapping[str, Any]) -> Scenario:
    """Return the scenario in ``tree``, the content of a file; ``given`` replaces some fields.

    Raises ``ScenarioError`` for the first field that is wrong, and for the first field of ``given``
    that would change nothing. Fields of ``tree`` that would change nothing are ignored.
    """
    if not isinstance(tree, dict):
        raise ScenarioError("the scenario", "is no mapping", f"its fields are {', '.join(FIELDS)}")
    merged = {**tree, **{name: value for name, value in given.items() if value is not None}}
    for name in merged:
        if name not in FIELDS:
            raise ScenarioError(str(name), "is no field", f"fields are {', '.join(FIELDS)}")
    try:
        found = msgspec.convert(merged, Scenario, strict=False)
    except msgspec.ValidationError as error:
        where = str(error).rpartition("`$.")[2].rstrip("`")
        raise _of_wrong_type(where, merged[where]) from None
    _check(found)
    _check_effects(found, [name for name, value in given.items() if value is not None])
    if found.strict:
        return replace(found, record=None)
    return replace(found, policy=None) if _is_bind(found) else found


def _of_wrong_type(field: str, value: object) -> ScenarioError:
    """Return the error for a value of the wrong type, with an example of a right value."""
    example = EXAMPLES[field]
    shown = "a list" if isinstance(value, list) else "a mapping"
    if value is None or isinstance(value, str | bool | int | float):
        shown = json.dumps(value)
    shape = f"{field}: {example if isinstance(example, str) else json.dumps(example)}"
    fault = f"is {shown}, which is not {_KINDS[type(example)]}"
    return ScenarioError(field, fault, f"write it like {shape}")


def _check(asked: Scenario) -> None:
    if (asked.trace is None) == (asked.generate is None):
        raise ScenarioError(
            "trace, generate",
            "exactly one of them is needed",
            ("name a file, or state the jobs to generate"),
        )
    if asked.cluster is None:
        raise ScenarioError("cluster", "is missing", "say how many GPUs: v100=36,p100=36,k80=36")
    if asked.discipline not in (Discipline.ROUNDS.value, Discipline.BIND.value):
        raise ScenarioError("discipline", f"is {asked.discipline!r}", "write rounds or bind")
    if asked.policy is None and not _is_bind(asked):
        raise ScenarioError("policy", "is missing", "name one of `quorate policy list`")
    if (asked.strict or asked.generate is not None) and asked.throughputs is None:
        raise ScenarioError("throughputs", "is missing", "name a table of rates")
    _check_numbers(asked)


_ENGINE_ONLY: Final = (
    "discipline",
    "budgets",
    "gpus_per_node",
    "nodes_per_domain",
    "depth",
    "conflicts",
    "checkpoint_s",
    "saves_at_stop",
    "stop_s",
)
"""The fields that have no effect under the published mechanism."""


def _is_bind(asked: Scenario) -> bool:
    """Return whether runs keep their GPUs until they end, so that no policy divides rounds."""
    return not asked.strict and asked.discipline == Discipline.BIND.value


def _check_effects(asked: Scenario, options: Collection[str]) -> None:
    """Raise ``ScenarioError`` for the first of ``options`` that would change nothing.

    Fields of a file are not checked, because one file may be played in several ways.
    """
    for name in options:
        why = None
        if asked.strict and name in _ENGINE_ONLY:
            why = "the published mechanism does not support this field"
        elif asked.strict and name == "record":
            why = "the published mechanism has no ledger"
        elif _is_bind(asked) and name in ("policy", "round_s"):
            why = "there are no rounds under bind"
        elif asked.generate is not None and name in ("format", "columns"):
            why = "no file is read"
        elif asked.columns is not None and name == "format":
            why = "the columns are mapped"
        if why is not None:
            raise ScenarioError(name, f"has no effect: {why}", "leave it out")


def _check_numbers(asked: Scenario) -> None:
    bounds = {
        "round_s": (1, SECONDS_MAX),
        "gpus_per_node": (1, COUNT_MAX),
        "nodes_per_domain": (1, COUNT_MAX),
        "checkpoint_s": (0, SECONDS_MAX),
        "stop_s": (0, SECONDS_MAX),
        "seed": (0, SEED_MAX),
        "depth": (0, COUNT_MAX),
    }
    for name, (least, most) in bounds.items():
        value = getattr(asked, name)
        if value is not None and not least <= value <= most:
            raise ScenarioError(name, f"is {value:g}", f"write {least} to {most}")
    if asked.budgets is not None and not 0 < asked.budgets <= 1e6:  # noqa: PLR2004 - any bound
        raise ScenarioError(
            "budgets", f"is {asked.budgets:g}", "write a factor above 0, such as 1.5"
        )


def measured_of(asked: Scenario) -> tuple[int, int] | None:
    """Return (first, last + 1) of the measured jobs; None means all jobs."""
    if asked.measure is None:
        return None
    found = _MEASURE.fullmatch(asked.measure)
    if found is None:
        raise ScenarioError(
            "measure", f"is {asked.measure!r}, which is not FROM:TO", "write it like 4000:5000"
        )
    begin, end = int(found[1]), int(found[2])
    if begin >= end:
        raise ScenarioError(
            "measure",
            f"is {asked.measure!r}, and FROM must be below TO",
            "TO is the position after the last measured job; 0:10 measures ten jobs",
        )
    if end > JOBS_MAX:
        raise ScenarioError("measure", f"ends at {end}", f"end it at {JOBS_MAX} or earlier")
    return begin, end


class Drawn(Struct, frozen=True, kw_only=True):
    """Which jobs to draw, and how many; ``jobs`` None means as many as the simulation needs."""

    wishes: Generated
    jobs: int | None


def drawn_of(text: str, seed: int) -> Drawn:
    """Return which jobs to draw, read from a text such as ``lam=4500,seed=42,jobs=100,multi=1``.

    If the text has no seed, ``seed`` is used.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or name not in GENERATE_KEYS or name in found:
            raise ScenarioError(
                "generate",
                f"has {part!r}, which is not KEY=VALUE or is given twice",
                f"keys are {', '.join(GENERATE_KEYS)}",
            )
        found[name] = value
    lam_s = _number(found, "lam", None)
    arrivals = found.get("arrivals", Arrivals.POISSON if lam_s else Arrivals.STATIC)
    if arrivals not in tuple(Arrivals):
        raise ScenarioError(
            "generate.arrivals", f"is {arrivals!r}", f"write one of {', '.join(Arrivals)}"
        )
    if arrivals != Arrivals.STATIC and not lam_s:
        raise ScenarioError("generate.lam", "is 0", "write the mean seconds between two arrivals")
    jobs = None if "jobs" not in found else _whole(found, "jobs", 1, JOBS_MAX)
    wishes = Generated(
        lam_s=lam_s,
        seed=_whole(found, "seed", 0, SEED_MAX) if "seed" in found else seed,
        has_sizes=_flag(found, "multi"),
        has_weights=_flag(found, "weights"),
        has_deadlines=_flag(found, "slos"),
        arrivals=Arrivals(arrivals),
    )
    return Drawn(wishes=wishes, jobs=jobs)


def _number(found: Mapping[str, str], name: str, default: float | None) -> float:
    text = found.get(name)
    try:
        value = float(text) if text is not None else default
    except ValueError:
        value = None
    if value is None or not 0 <= value <= GAP_MAX_S:
        what = "is missing" if text is None else f"is {text!r}"
        raise ScenarioError(f"generate.{name}", what, f"write a number up to {GAP_MAX_S:g}")
    return value


def _whole(found: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = found[name]
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ScenarioError(
            f"generate.{name}", f"is {text!r}", f"write a whole number from {least} to {most}"
        )
    return int(text)


def _flag(found: Mapping[str, str], name: str) -> bool:
    text = found.get(name, "0").lower()
    if text not in ("0", "1", "true", "false", "yes", "no"):
        raise ScenarioError(f"generate.{name}", f"is {text!r}", "write 1 or 0")
    return text in ("1", "true", "yes")
