"""What operations give that show the fleet as a whole, or the output of a run."""

from __future__ import annotations

from quorate.operations.common_responses import Given


class Use(Given, kw_only=True, frozen=True):
    """GPUs of one domain, flavor and pool: what works, what is free, what is not offered."""

    domain: str
    flavor: str
    pool: str
    gpus_used: int
    gpus_free: int
    gpus_out_of_service: int
    gpus_total: int
    nodes: int
    nodes_not_ready: int


class FlavorUse(Given, kw_only=True, frozen=True):
    """GPUs of one flavor, wherever they are; ``queued`` is what waits for them, by preference."""

    flavor: str
    gpus_used: int
    gpus_free: int
    gpus_out_of_service: int
    gpus_total: int
    gpus_queued: int


class OwnerUse(Given, kw_only=True, frozen=True):
    """What the runs of one owner hold of one flavor now."""

    owner: str
    flavor: str
    gpus: int
    gpus_spare: int
    runs: int


class Top(Given, kw_only=True, frozen=True):
    """The fleet as it is now: by flavor, by domain, and who has how much of it."""

    flavors: tuple[FlavorUse, ...]
    domains: tuple[Use, ...]
    owners: tuple[OwnerUse, ...]


class LogLine(Given, kw_only=True, frozen=True):
    """One line of output; ``stream`` is ``out`` or ``err``.

    ``rank`` is the process that wrote it; null where the executor says something itself.
    """

    number: int
    at: str
    node: str
    rank: int | None
    stream: str
    text: str


class Logs(Given, kw_only=True, frozen=True):
    """Lines in order. ``next`` is where to read on; ``ended`` says that no more will come."""

    run: str
    lines: tuple[LogLine, ...]
    next: int
    ended: bool
