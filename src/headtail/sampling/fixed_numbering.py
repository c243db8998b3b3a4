"""Local numbers for the distinct nodes of a batch, in arrays of fixed size, without asking the host for any."""

import torch
from torch import Tensor


class FixedNumbering:
    """`Numbering` for lists that are padded with the node number N: it stands for no node.

    Marks are summed up over all nodes, which orders the found ones without sorting: O(N + batch).
    """

    def __init__(self, num_nodes: int, device: torch.device) -> None:
        self.nothing = num_nodes
        self._mark = torch.zeros(num_nodes + 1, dtype=torch.int32, device=device)
        # 1 + the place of nodes that come first; 0 for all others.
        self._first = torch.zeros(num_nodes + 1, dtype=torch.int32, device=device)
        self._rank = self._mark
        self._count = torch.zeros((), dtype=torch.int64, device=device)

    def distinct(self, nodes: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
        """Returns the distinct ones of `nodes`, ascending, and how many there are; numbers them so."""
        return self.extend(nodes.new_empty(0), nodes.new_zeros(()), nodes, capacity)

    def extend(self, first: Tensor, count: Tensor, others: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
        """Returns `first`, then the nodes of `others` that are not in it, and how many there are; numbers them so.

        Args:
            first: int64 [F], distinct nodes, `count` of them; then padding.
            others: int64 [K], nodes and padding.
            capacity: how long the returned list is, F or more. If there are more nodes than that, the rest is left out.
        """
        places = torch.arange(1, first.numel() + 1, dtype=torch.int32, device=first.device)
        self._first.zero_().scatter_(0, first, places)
        marks = self._mark.zero_().index_fill_(0, others, 1).index_fill_(0, first, 0)
        self._rank = marks.cumsum(0, dtype=torch.int32)
        self._count = count
        found = self._rank[self.nothing - 1] + count
        nodes = torch.full((capacity + 1,), self.nothing, device=first.device)
        nodes[: first.numel()] = first
        nodes.scatter_(0, self.local(others, capacity), others)
        return nodes[:capacity], found

    def local(self, nodes: Tensor, capacity: int) -> Tensor:
        """Returns the places of `nodes` in the list that `extend` returned last; its capacity for those not in it."""
        first = self._first[nodes]
        place = torch.where(first > 0, first, self._rank[nodes] + self._count).long() - 1
        return torch.where(nodes == self.nothing, capacity, place.clamp(max=capacity))
