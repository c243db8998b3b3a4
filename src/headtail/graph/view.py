"""A view: the links that a method is allowed to look at, as rows in every orientation."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from headtail.graph.csr import CSR


@dataclass(frozen=True)
class GraphView:
    """Links [2, E] that may be looked at, free of self-loops; undirected ones are stored once.

    `times` int64 [E] dates them where held-out links are known to be newer, so that age means the same to
    training and test; None elsewhere.
    """

    num_nodes: int
    directed: bool
    links: Tensor
    times: Tensor | None = None

    @cached_property
    def out_rows(self) -> CSR:
        """Head → tails. An undirected link counts as two directed ones."""
        return CSR.from_links(self.links if self.directed else both_ways(self.links), self.num_nodes)

    @cached_property
    def in_rows(self) -> CSR:
        """Tail → heads."""
        return self.out_rows.transposed if self.directed else self.out_rows

    @cached_property
    def neighbours(self) -> CSR:
        """The symmetric graph without self-loops, also for directed data."""
        return CSR.from_links(both_ways(self.links), self.num_nodes) if self.directed else self.out_rows

    def with_links(self, more: Tensor) -> "GraphView":
        """Returns a view that sees further links too; where links are dated, these are newer than all others."""
        times = self.times
        if times is not None:
            times = torch.cat([times, newer_than(times, more.shape[1])])
        return GraphView(self.num_nodes, self.directed, torch.cat([self.links, more], dim=1), times)

    def to(self, device: torch.device | str) -> "GraphView":
        times = None if self.times is None else self.times.to(device)
        return GraphView(self.num_nodes, self.directed, self.links.to(device), times)


@dataclass(frozen=True)
class ServingView(GraphView):
    """Every link of the data, held-out ones too: what answers are given from once a method was judged.

    It is a type of its own so that judging can refuse it: a scorer made from one says so (`Scorer.sees_held_out`).
    """

    def with_links(self, more: Tensor) -> "ServingView":
        whole = super().with_links(more)
        return replace(self, links=whole.links, times=whole.times)

    def to(self, device: torch.device | str) -> "ServingView":
        there = super().to(device)
        return replace(self, links=there.links, times=there.times)


def newer_than(times: Tensor, count: int) -> Tensor:
    """Returns one time, `count` times over, that is after all of `times`, or the latest that can be written."""
    latest = torch.iinfo(torch.int64).max
    return times.new_full((count,), min(int(times.max()), latest - 1) + 1 if times.numel() else 0)


def both_ways(links: Tensor) -> Tensor:
    """Returns links [2, 2E]: each link and its reverse."""
    return torch.cat([links, links.flip(0)], dim=1)
