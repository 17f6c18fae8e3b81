"""Assigns GPUs to each chosen row: the GPUs that the row had, or else GPUs near each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from quorate.policy.rounds.round_book import Row, Rules
from quorate.policy.rounds.row_choice import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The numbers of the GPUs of one flavor in one machine, and the machine's domain.

    The caller chooses the numbers; each GPU has a different number.
    """

    flavor: str
    gpus: tuple[int, ...]
    domain: str = ""


class Place(NamedTuple):
    """The GPUs of one row in one round. ``is_spread`` says that several servers have them."""

    flavor: str
    gpus: tuple[int, ...]
    is_spread: bool = False


def stays(before: Place | None, now: Place) -> bool:
    """Return whether a row has the same GPUs again; if so, the row's lease is extended."""
    if before is None or before is now:  # A row that keeps its GPUs keeps its ``Place`` object.
        return before is now
    return set(before.gpus) == set(now.gpus)


class Places:
    """Assigns GPUs of the same servers to the rows of successive rounds.

    A row keeps its GPUs of the last round if all of them are available. The other rows are placed
    next, largest first. A row goes to the server on which it fits and leaves the fewest GPUs free.
    If the row fits on no server, it goes to the domain in which it fits and leaves the fewest GPUs
    free; there it takes GPUs of the servers with most free GPUs first. If the row fits in no
    domain, it is spread over several domains. Of equally good servers, the earlier one is taken.
    ``STRICT`` rules differ: a row keeps or takes GPUs before all smaller rows, servers are filled
    in order, and rows outside the allocation get no new place.
    """

    def __init__(self, servers: Sequence[Server], rules: Rules) -> None:
        flavors = dict.fromkeys(server.flavor for server in servers)
        self._sites = {
            flavor: _Site([server for server in servers if server.flavor == flavor])
            for flavor in flavors
        }
        self._rules = rules

    def of(
        self, chosen: Mapping[str, Sequence[Candidate]], before: Mapping[Row, Place]
    ) -> dict[Row, Place]:
        """Return the GPUs of every chosen row; ``before`` has the rows' GPUs of the last round.

        The servers must have enough GPUs for all chosen rows.
        """
        found: dict[Row, Place] = {}
        by_sizes = self._rules.places_by_size
        for flavor, rows in chosen.items():
            if not rows:
                continue
            floor = _Floor(flavor, self._sites.get(flavor) or _Site(()))
            by_size = sorted(rows, key=_gpus, reverse=True)
            turns = [list(same) for _, same in groupby(by_size, key=_gpus)]
            take = floor.fill if by_sizes else floor.pack
            for turn in turns if by_sizes else [by_size]:
                for candidate in turn:
                    was = before.get(candidate.row)
                    if was is not None and floor.keep(was):
                        found[candidate.row] = was
                for candidate in turn:
                    if candidate.row not in found and candidate.is_allocated:
                        found[candidate.row] = take(candidate.gpus)
        return found


def _gpus(candidate: Candidate) -> int:
    return candidate.gpus


class _Site:
    """The servers of one flavor, by domain and by GPU."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self.gpus = [server.gpus for server in servers]
        self.domains: dict[str, list[int]] = {}
        self.server_of: dict[int, int] = {}
        for at, server in enumerate(servers):
            self.domains.setdefault(server.domain, []).append(at)
            self.server_of.update(dict.fromkeys(server.gpus, at))


class _Floor:
    """The servers of one flavor while a round is placed."""

    def __init__(self, flavor: str, site: _Site) -> None:
        self.flavor = flavor
        self.free = [list(gpus) for gpus in site.gpus]
        self._begun = 0
        self.domains = site.domains
        self.server_of = site.server_of

    def keep(self, was: Place) -> bool:
        """Take the GPUs of ``was`` and return True if all of them are free here; else False."""
        if was.flavor != self.flavor:
            return False
        server_of, every = self.server_of, self.free
        where = []
        for gpu in was.gpus:
            at = server_of.get(gpu)
            if at is None or gpu not in every[at]:
                return False
            where.append((every[at], gpu))
        for free, gpu in where:
            free.remove(gpu)
        return True

    def fill(self, gpus: int) -> Place:
        """Take the first free GPUs, server by server."""
        at, free = self._begun, self.free
        while at < len(free) and not free[at]:  # GPUs never become free again within a round.
            at += 1
        self._begun = at
        return self._take(range(at, len(free)), gpus)

    def pack(self, gpus: int) -> Place:
        """Take GPUs of the fullest server that has enough, else of as few servers as possible."""
        room = [len(free) for free in self.free]
        fitting = [at for at, free in enumerate(room) if free >= gpus]
        if fitting:
            return self._take([min(fitting, key=lambda at: room[at])], gpus)
        near = [
            (sum(room[at] for at in domain), domain)
            for domain in self.domains.values()
            if sum(room[at] for at in domain) >= gpus
        ]
        within = min(near, key=_room)[1] if near else range(len(room))
        return self._take(sorted(within, key=lambda at: room[at], reverse=True), gpus)

    def _take(self, servers: Iterable[int], gpus: int) -> Place:
        taken: list[int] = []
        used = 0
        for at in servers:
            if part := self.free[at][: gpus - len(taken)]:
                taken += part
                del self.free[at][: len(part)]
                used += 1
                if len(taken) == gpus:
                    break
        assert len(taken) == gpus, (self.flavor, gpus, taken)
        return Place(flavor=self.flavor, gpus=tuple(taken), is_spread=used > 1)


def _room(domain: tuple[int, Sequence[int]]) -> int:
    return domain[0]
