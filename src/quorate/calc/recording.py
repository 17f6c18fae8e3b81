"""A recorded simulation as JSON: its jobs, its GPUs, and its allocations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from quorate.calc.world_reader import settle, without_nulls
from quorate.documents import values
from quorate.documents.field_reader import (
    At,
    Fields,
    Read,
    as_it_is,
    complete,
    fields_of,
    listed,
    mapped,
)
from quorate.policy.rounds.round_book import ROUND_S, STRICT, Row, Shares
from quorate.policy.rounds.round_places import Server
from quorate.sim.published import has_pairs
from quorate.sim.round_simulation import RoundJob

RECORDING: Final = frozenset(
    {
        "policy",
        "cluster_spec",
        "num_gpus_per_server",
        "worker_ids",
        "seed",
        "round_s",
        "min_time_between_resets",
        "jobs",
        "resets",
        "rounds",
        "throughputs",
    }
)
"""The fields of a recording that this module reads. Other fields are ignored."""
JOB: Final = frozenset({"id", "type", "scale_factor", "total_steps", "arrival"})
RESET: Final = frozenset({"t", "allocation"})
ROUND: Final = frozenset({"reset", "priorities"})

GPUS_PLAYED_MAX: Final = 100_000
PAIR: Final = 2
PAIR_MARK: Final = ","
_Priorities = Mapping[str, Mapping[str, float]]
T = TypeVar("T")

_seed = values.whole(low=0, high=values.COUNT_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """An allocation, and the instant at which the policy made it."""

    at_s: float
    shares: Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A simulation that is to be played again. ``types`` has the type of each job, by its name."""

    policy: str
    seed: int
    round_s: float
    reset_gap_s: float
    jobs: tuple[RoundJob, ...]
    types: Mapping[str, str]
    servers: tuple[Server, ...]
    resets: tuple[Reset, ...]
    throughputs: object


def read_recording(world: object) -> Recording:
    """Return the recording in ``world``; raise ``CalcInputError`` for the first fault."""
    at = At((), [])
    fields = _fields(without_nulls(world), at, RECORDING)
    settle(at)
    assert fields is not None, world
    policy = fields.required("policy", values.text_at)
    jobs = fields.required("jobs", _jobs)
    resets = fields.required("resets", _resets)
    marked = fields.optional("rounds", _marked, ())
    gpus = dict(fields.required("cluster_spec", _counts) or ())
    found = Recording(
        policy=policy or "",
        seed=fields.optional("seed", _seed, 0),
        round_s=fields.optional("round_s", values.weight, ROUND_S),
        reset_gap_s=fields.optional("min_time_between_resets", values.rate, STRICT.reset_gap_s),
        jobs=tuple(job for job, _ in jobs or ()),
        types={job.name: kind for job, kind in jobs or ()},
        servers=_servers(fields, gpus),
        resets=_recovered(resets or (), marked),
        throughputs=fields.optional("throughputs", as_it_is, None),
    )
    settle(at)
    _check_rows(found, frozenset(gpus), fields.at("resets"))
    settle(at)
    return found


def row_text(row: Row) -> str:
    """Return the text of ``row``: ``"0"``, or ``"0,1"`` for a pair."""
    return PAIR_MARK.join(row)


def _check_rows(found: Recording, flavors: frozenset[str], at: At) -> None:
    """Report a fault for each row that is not a job or a pair, and for each unknown flavor."""
    gpus = {job.name: job.gpus for job in found.jobs}
    pairs = has_pairs(found.policy)
    for number, reset in enumerate(found.resets):
        for row, by_flavor in reset.shares.items():
            place = at.child(number).child("allocation").child(row_text(row))
            if not set(row) <= gpus.keys():
                place.fault("is not a job of this recording", "name jobs by their ids")
            elif len(row) > 1 and not pairs:
                place.fault(f"is a pair, but {found.policy} makes no pairs", "remove it")
            elif len(row) > PAIR or len({gpus[job] for job in row}) > 1 or len(set(row)) < len(row):
                place.fault("is not a pair of two jobs of the same scale_factor", "remove it")
            for flavor in by_flavor.keys() - flavors:
                place.child(flavor).fault("is not a flavor of cluster_spec", "add it there")


def _fields(value: object, at: At, read: frozenset[str]) -> Fields | None:
    """Return the fields of ``value``; fields that are not in ``read`` are ignored."""
    known = read.union(value) if isinstance(value, dict) else read
    return fields_of(value, at, known)


def _jobs(value: object, at: At) -> tuple[tuple[RoundJob, str], ...] | None:
    found = complete(listed(value, at, _job))
    if found is None:
        return None
    if not found:
        at.fault("is empty", "add the jobs of the simulation")
    names = [job.name for job, _ in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        at.fault(f"has job {twice} more than once", "give each job an id of its own")
    arrivals = [job.arrives_s for job, _ in found]
    if arrivals != sorted(arrivals):
        at.fault("are not in the order in which they arrive", "sort them by arrival")
    return found


def _job(value: object, at: At) -> tuple[RoundJob, str] | None:
    fields = _fields(value, at, JOB)
    if fields is None:
        return None
    name = fields.required("id", _job_id)
    kind = fields.required("type", values.text_at)
    gpus = fields.required("scale_factor", values.gpus)
    steps = fields.required("total_steps", values.weight)
    arrives_s = fields.required("arrival", values.rate)
    if name is None or kind is None or gpus is None or steps is None or arrives_s is None:
        return None
    count = int(steps) if steps.is_integer() else steps
    return RoundJob(name=name, gpus=gpus, steps=count, arrives_s=arrives_s), kind


def _job_id(value: object, at: At) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return values.name(value, at)


def _servers(fields: Fields, gpus: Mapping[str, int]) -> tuple[Server, ...]:
    """Return the servers with the numbers of their GPUs.

    The numbers are those of ``worker_ids``. If ``worker_ids`` is missing, GPUs are numbered from 0,
    flavor by flavor in the order of their names.
    """
    sizes = dict(fields.optional("num_gpus_per_server", _counts, ()))
    named = fields.maybe("worker_ids", _numbered)
    if named is not None:
        return tuple(Server(flavor=flavor, gpus=one) for flavor, many in named for one in many)
    if sum(gpus.values()) > GPUS_PLAYED_MAX:
        fields.at("cluster_spec").fault(f"has more than {GPUS_PLAYED_MAX} GPUs", "use fewer")
        return ()
    found: list[Server] = []
    first = 0
    for flavor in sorted(gpus):
        size = max(sizes.get(flavor, 1), 1)
        for _ in range(gpus[flavor] // size):
            found.append(Server(flavor=flavor, gpus=tuple(range(first, first + size))))
            first += size
    return tuple(found)


def _counts(value: object, at: At) -> tuple[tuple[str, int], ...] | None:
    return mapped(value, at, key=values.text_at, read=values.count)


def _numbered(value: object, at: At) -> tuple[tuple[str, tuple[tuple[int, ...], ...]], ...] | None:
    return mapped(value, at, key=values.text_at, read=_each(_each(values.count)))


def _each(read: Read[T]) -> Read[tuple[T, ...]]:
    return lambda value, at: complete(listed(value, at, read))


def _resets(value: object, at: At) -> tuple[Reset, ...] | None:
    return complete(listed(value, at, _reset))


def _reset(value: object, at: At) -> Reset | None:
    fields = _fields(value, at, RESET)
    if fields is None:
        return None
    at_s = fields.required("t", values.rate)
    # Without jobs the policy makes no allocation, and the recording has null.
    shares = fields.optional("allocation", _shares, {})
    return None if at_s is None else Reset(at_s=at_s, shares=shares)


def _shares(value: object, at: At) -> Shares | None:
    found = mapped(value, at, key=values.text_at, read=_by_flavor)
    return None if found is None else {tuple(key.split(PAIR_MARK)): dict(by) for key, by in found}


def _by_flavor(value: object, at: At) -> tuple[tuple[str, float], ...] | None:
    return mapped(value, at, key=values.text_at, read=values.rate)


def _marked(value: object, at: At) -> tuple[_Priorities, ...] | None:
    """Return the recorded priorities at each reset; None if the rounds cannot be read."""
    found = complete(listed(value, at, _priorities))
    return None if found is None else tuple(each for resets, each in found if resets)


def _priorities(value: object, at: At) -> tuple[bool, _Priorities] | None:
    fields = _fields(value, at, ROUND)
    if fields is None:
        return None
    resets = fields.optional("reset", values.truth, default=False)
    if not resets:
        return resets, {}
    found = fields.optional("priorities", _by_flavor_and_row, ())
    return resets, {flavor: dict(rows) for flavor, rows in found}


def _by_flavor_and_row(
    value: object, at: At
) -> tuple[tuple[str, tuple[tuple[str, float], ...]], ...] | None:
    return mapped(value, at, key=values.text_at, read=_by_flavor)


def _recovered(resets: tuple[Reset, ...], marked: tuple[_Priorities, ...]) -> tuple[Reset, ...]:
    """Return ``resets`` with the shares of missing pairs, computed from the pairs' priorities.

    A recording leaves out a pair if all its shares are below 1e-9. But even such a small share
    matters: it decides which row gets GPUs that no other row wants. At a reset, all rows have had
    GPUs for the same time. So the share of a pair is its priority divided by the number of rows.
    """
    if len(resets) != len(marked):
        return resets
    found = []
    for reset, priorities in zip(resets, marked, strict=True):
        shares = dict(reset.shares)
        for flavor, rows in priorities.items():
            for text, priority in rows.items():
                row = tuple(text.split(PAIR_MARK))
                if len(row) > 1 and row not in reset.shares:
                    shares[row] = {**shares.get(row, {}), flavor: priority / len(rows)}
        found.append(Reset(at_s=reset.at_s, shares=shares))
    return tuple(found)
