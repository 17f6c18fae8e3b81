"""A small maximum-flow problem, to decide quickly whether demands could be paid for at all.

Flow runs from demands to envelopes, from an envelope to at most one cap, and from caps to the sink.
Further caps of an envelope are ignored; they could only make paying harder. So if the maximum flow
is less than the demands, the demands cannot be paid for. If the flow is sufficient and no envelope
is in two caps, the demands can be paid for.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class FlowNetwork:
    """A directed graph with integer capacities. The reverse of edge ``i`` is edge ``i ^ 1``."""

    heads: list[int] = field(default_factory=list)
    capacity: list[int] = field(default_factory=list)
    edges_from: list[list[int]] = field(default_factory=list)

    def node(self) -> int:
        """Add a node and return its number."""
        self.edges_from.append([])
        return len(self.edges_from) - 1

    def edge(self, tail: int, head: int, capacity: int) -> int:
        """Add an edge and return its number."""
        number = len(self.heads)
        self.heads += (head, tail)
        self.capacity += (capacity, 0)
        self.edges_from[tail].append(number)
        self.edges_from[head].append(number + 1)
        return number

    def flow_on(self, number: int) -> int:
        """Return the flow through edge ``number``."""
        return self.capacity[number ^ 1]

    def push(self, source: int, sink: int, limit: int) -> int:
        """Add up to ``limit`` of flow from ``source`` to ``sink``, and return how much was added.

        The flow from other sources may take other edges afterwards, but is never reduced.
        """
        sent = 0
        while sent < limit:
            path = self._path(source, sink)
            if path is None:
                break
            amount = min(limit - sent, *(self.capacity[number] for number in path))
            for number in path:
                self.capacity[number] -= amount
                self.capacity[number ^ 1] += amount
            sent += amount
        return sent

    def _path(self, source: int, sink: int) -> list[int] | None:
        """Return the edges of a shortest path with capacity left; None if there is no such path."""
        came_by: dict[int, int] = {source: -1}
        queue = [source]
        for node in queue:
            for number in self.edges_from[node]:
                head = self.heads[number]
                if self.capacity[number] > 0 and head not in came_by:
                    came_by[head] = number
                    if head == sink:
                        return self._trace(came_by, sink)
                    queue.append(head)
        return None

    def _trace(self, came_by: dict[int, int], sink: int) -> list[int]:
        path: list[int] = []
        node = sink
        while came_by[node] != -1:
            path.append(came_by[node])
            node = self.heads[came_by[node] ^ 1]
        path.reverse()
        return path
