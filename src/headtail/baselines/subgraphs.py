"""Enclosing subgraphs of many pairs at once, as one disjoint union, with the labels that local GNNs read off them.

A node of a pair's subgraph is known by its key, pair · N + node. Keys are kept sorted, so finding a node is a
binary search and everything is a few operations on long tensors, whatever the number of pairs.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import count

import torch
from torch import Tensor

from headtail.graph.csr import CSR, row_pointers

UNREACHABLE = -1


@dataclass(frozen=True)
class Subgraphs:
    """The subgraphs of P pairs, M nodes in all, pair after pair; the link of a pair itself is not in its subgraph.

    Attributes:
        nodes: int64 [M], node numbers in the whole graph.
        pair: int64 [M], the pair that each node belongs to.
        first: int64 [P + 1], where each pair's nodes start.
        ends: int64 [2, P], the places of head and tail in `nodes`.
        adjacency: [M × M], symmetric, without self-loops.
    """

    nodes: Tensor
    pair: Tensor
    first: Tensor
    ends: Tensor
    adjacency: CSR

    @property
    def num_pairs(self) -> int:
        return self.ends.shape[1]

    @cached_property
    def sizes(self) -> Tensor:
        """int64 [P], nodes per pair."""
        return self.first.diff()

    def normalised(self, self_loops: bool) -> tuple[CSR, Tensor]:
        """Returns D^-½ A D^-½ and D^-1 [M], the weight of a self-loop; D counts self-loops where they are wanted.

        A self-loop is cheaper as a product with [M] than as an entry of the adjacency.
        """
        degree = (self.adjacency.degrees + int(self_loops)).clamp(min=1)
        root = degree.to(torch.float32).rsqrt()
        weight = root[self.adjacency.row] * root[self.adjacency.col]
        return self.adjacency.with_weight(weight), degree.to(torch.float32).reciprocal()


class SubgraphExtractor:
    """Cuts the subgraphs within `hops` of either end of a pair out of a symmetric graph.

    Where a hop reaches more than `nodes_per_hop` new nodes, that many are drawn at random (None: all are kept). The
    seed puts all nodes in one random order, and of a crowded hop the first are taken: a uniform draw for every single
    pair, the same in every batch, in both orientations and on every device. Since neighbours are listed in that order
    too, only the beginning of a hub's list is ever read.
    """

    def __init__(self, neighbours: CSR, hops: int, nodes_per_hop: int | None, seed: int) -> None:
        self.hops, self.nodes_per_hop, self.num_nodes = hops, nodes_per_hop, neighbours.num_rows
        tickets = scramble(
            scramble(torch.tensor(seed)).to(neighbours.device) + torch.arange(self.num_nodes, device=neighbours.device)
        )
        self._node = torch.argsort(tickets)
        self._rank = torch.empty_like(self._node)
        self._rank[self._node] = torch.arange(self.num_nodes, device=neighbours.device)
        # From here on a node is known by its rank.
        self._neighbours = _renumbered(neighbours, self._rank)
        self._upward = _upward(self._neighbours)

    def extract(self, pairs: Tensor) -> Subgraphs:
        """Returns the subgraphs of pairs [2, P]."""
        base = torch.arange(pairs.shape[1], device=pairs.device) * self.num_nodes
        wanted = base + self._rank[pairs]
        keys = frontier = torch.unique(wanted)
        for hop in range(1, self.hops + 1):
            frontier = self._beyond(frontier, keys, hop)
            keys = torch.cat([keys, frontier]).sort().values
        pair = torch.div(keys, self.num_nodes, rounding_mode="floor")
        rank = keys - pair * self.num_nodes
        ends = torch.searchsorted(keys, wanted)
        adjacency = self._induced(keys, pair, rank, ends)
        return Subgraphs(self._node[rank], pair, row_pointers(pair, pairs.shape[1]), ends, adjacency)

    def _beyond(self, frontier: Tensor, keys: Tensor, hop: int) -> Tensor:
        """Returns the keys one step from `frontier` that are not among `keys`, as many as may be kept, ascending."""
        most = self.nodes_per_hop
        rank = frontier % self.num_nodes
        degrees = self._neighbours.degrees[rank]
        if most is not None:
            # The first `most` new nodes of a pair are among the first of every list, behind what is there already.
            degrees = degrees.clamp(max=hop * most + 2)
        owner, listed = _listed(self._neighbours, rank, degrees)
        reached: Tensor = torch.unique((frontier - rank).index_select(0, owner).add_(listed))
        reached = reached[~_contains(keys, reached)]
        if most is None or reached.numel() == 0:
            return reached
        pair = torch.div(reached, self.num_nodes, rounding_mode="floor")
        first = row_pointers(pair, int(pair[-1]) + 1)[pair]
        return reached[torch.arange(reached.numel(), device=reached.device) - first < most]

    def _induced(self, keys: Tensor, pair: Tensor, rank: Tensor, ends: Tensor) -> CSR:
        """Returns the links among each pair's nodes, but not the one between its ends."""
        owner, listed = _listed(self._upward, rank, self._upward.degrees[rank])
        wanted = (keys - rank).index_select(0, owner).add_(listed)
        place = torch.searchsorted(keys, wanted).clamp_(max=max(0, keys.numel() - 1))
        found = (keys.index_select(0, place) == wanted).nonzero().squeeze(1)
        low, high = owner[found], place[found]
        head, tail = ends[:, pair[low]]
        other = ~(((low == head) & (high == tail)) | ((low == tail) & (high == head)))
        low, high = low[other], high[other]
        row, order = torch.sort(torch.cat([low, high]).to(torch.int32), stable=True)
        return CSR(row_pointers(row, keys.numel()), torch.cat([high, low])[order], keys.numel())

    def work(self, pairs: Tensor) -> Tensor:
        """Returns float32 [P], about how many nodes and neighbours are looked at to extract each pair's subgraph."""
        ranks = self._rank[pairs]
        total = torch.zeros(pairs.shape[1], device=pairs.device)
        share = torch.ones_like(total)
        for hop in range(self.hops + 1):
            nodes, listed, upward = self._walks[hop][ranks].sum(dim=0).unbind(dim=1)
            if hop and self.nodes_per_hop is not None:
                share = (self.nodes_per_hop / nodes.clamp(min=1)).clamp(max=1)
            total += share * (nodes + upward + (listed if hop < self.hops else 0))
        return total

    @cached_property
    def _walks(self) -> list[Tensor]:
        """Per hop float32 [N, 3]: walks of that length from a node, and the entries listed where they end."""
        listed = self._neighbours.degrees
        if self.nodes_per_hop is not None:
            listed = listed.clamp(max=self.hops * self.nodes_per_hop + 2)
        columns = torch.stack([torch.ones_like(listed), listed, self._upward.degrees], dim=1).float()
        found = [columns]
        for _ in range(self.hops):
            found.append(self._neighbours.matmul(found[-1]))
        return found


def _renumbered(graph: CSR, number: Tensor) -> CSR:
    """Returns the same graph with other node numbers."""
    return CSR.from_links(torch.stack([number[graph.row], number[graph.col]]), graph.num_rows)


def _upward(graph: CSR) -> CSR:
    """Returns every link of a symmetric graph once, from the end of lower degree to the other.

    Induced links are found by listing these: a hub then has few entries, at most √(2E), instead of thousands.
    """
    low, high = graph.degrees[graph.row], graph.degrees[graph.col]
    chosen = (low < high) | ((low == high) & (graph.row < graph.col))
    return CSR(row_pointers(graph.row[chosen], graph.num_rows), graph.col[chosen], graph.num_rows)


def _listed(graph: CSR, rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the owner [K] (position in `rows`) and the column [K] of the first counts [R] entries of some rows."""
    owner = torch.repeat_interleave(counts)
    shift = graph.row_ptr[rows] - (counts.cumsum(0) - counts)
    entry = shift.index_select(0, owner).add_(torch.arange(owner.numel(), device=owner.device))
    return owner, graph.col.index_select(0, entry)


def _contains(sorted_keys: Tensor, wanted: Tensor) -> Tensor:
    """bool [K], which of `wanted` are among the keys, of which there is at least one unless none is wanted."""
    if wanted.numel() == 0:
        return torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(sorted_keys, wanted).clamp_(max=sorted_keys.numel() - 1)
    return sorted_keys[place] == wanted


def scramble(x: Tensor) -> Tensor:
    """Returns int64 that look random and are the same on every device: a bijection of 64 bits (splitmix64's mixer)."""
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        x = (x ^ _shifted(x, shift)) * factor
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """x >> bits with zeros moving in; torch repeats the sign."""
    return torch.bitwise_and(torch.bitwise_right_shift(x, bits), 2 ** (64 - bits) - 1)


def distances(subgraphs: Subgraphs, masked: bool) -> Tensor:
    """Returns int64 [M, 2], links from each node to the head and to the tail of its pair.

    Args:
        masked: paths to one end may not pass through the other, whose own distance is then 0 by convention.
    """
    frontier = torch.zeros(subgraphs.nodes.numel(), 2, device=subgraphs.nodes.device)
    side = torch.tensor([[0], [1]], device=frontier.device)
    frontier[subgraphs.ends, side] = 1.0
    found = torch.full_like(frontier, UNREACHABLE, dtype=torch.int64)
    found[subgraphs.ends, side] = 0
    if masked:
        found[subgraphs.ends, 1 - side] = 0
    # A step of both searches of all pairs is one sparse product; the frontier does not come back, as found nodes stay.
    for step in count(1):
        reached = (subgraphs.adjacency.matmul(frontier) > 0) & (found == UNREACHABLE)
        if not reached.any():
            return found
        found[reached] = step
        frontier = reached.float()
    raise AssertionError("a search ends when nothing new is reached")


def drnl(subgraphs: Subgraphs) -> Tensor:
    """Returns int64 [M], SEAL's double-radius labels: 1 for both ends, 0 for nodes that one end does not reach."""
    to_head, to_tail = distances(subgraphs, masked=True).unbind(dim=1)
    total = to_head + to_tail
    half = torch.div(total, 2, rounding_mode="floor")
    label = 1 + torch.minimum(to_head, to_tail) + half * (half + total % 2 - 1)
    label[(to_head == UNREACHABLE) | (to_tail == UNREACHABLE)] = 0
    label[subgraphs.ends.flatten()] = 1
    return label
