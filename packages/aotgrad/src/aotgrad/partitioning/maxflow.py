"""Minimum cut of a flow network: Dinic's algorithm on plain integers.

Own code rather than networkx: graphs here have thousands of nodes, and a solver over integer lists is both shorter
than the adapter to a general one would be and an order of magnitude faster.
Must not know: what nodes and capacities mean.
"""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 60


class FlowNetwork:
    """Nodes are integers; edge 2k and its reverse 2k+1 share an entry each in flat lists."""

    def __init__(self, nodes: int) -> None:
        self._edges_of: list[list[int]] = [[] for _ in range(nodes)]
        self._head: list[int] = []
        self._room: list[int] = []

    def add_edge(self, tail: int, head: int, capacity: int) -> None:
        for node, other, room in ((tail, head, capacity), (head, tail, 0)):
            self._edges_of[node].append(len(self._head))
            self._head.append(other)
            self._room.append(room)

    def sink_side(self, source: int, sink: int) -> set[int]:
        """The nodes that a minimum cut leaves on the side of `sink`: of all minimum cuts, the nearest to it."""
        while (level := self._levels(source))[sink] >= 0:
            self._saturate(source, sink, level)
        return self._reaching(sink)

    def _reaching(self, sink: int) -> set[int]:
        """The nodes from which more could flow to `sink`."""
        found = {sink}
        queue = deque([sink])
        while queue:
            node = queue.popleft()
            for edge in self._edges_of[node]:
                tail = self._head[edge]
                if self._room[edge ^ 1] and tail not in found:
                    found.add(tail)
                    queue.append(tail)
        return found

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self._edges_of)
        level[source] = 0
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for edge in self._edges_of[node]:
                if self._room[edge] and level[self._head[edge]] < 0:
                    level[self._head[edge]] = level[node] + 1
                    queue.append(self._head[edge])
        return level

    def _saturate(self, source: int, sink: int, level: list[int]) -> None:
        """Pushes flow along shortest paths until each is blocked."""
        next_edge = [0] * len(self._edges_of)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                node = self._push(path, source)
                continue
            edge = self._advance(node, level, next_edge)
            if edge is not None:
                path.append(edge)
                node = self._head[edge]
            elif not path:
                return
            else:
                # A dead end: back over the last edge, which is not tried again.
                node = self._head[path.pop() ^ 1]
                next_edge[node] += 1

    def _advance(self, node: int, level: list[int], next_edge: list[int]) -> int | None:
        edges = self._edges_of[node]
        while next_edge[node] < len(edges):
            edge = edges[next_edge[node]]
            if self._room[edge] and level[self._head[edge]] == level[node] + 1:
                return edge
            next_edge[node] += 1
        return None

    def _push(self, path: list[int], source: int) -> int:
        """Fills the path and steps back to before its first full edge."""
        amount = min(self._room[edge] for edge in path)
        for edge in path:
            self._room[edge] -= amount
            self._room[edge ^ 1] += amount
        first_full = next(index for index, edge in enumerate(path) if not self._room[edge])
        back_to = self._head[path[first_full] ^ 1]
        del path[first_full:]
        return back_to
