"""A view: the links that a method is allowed to look at, as rows in every orientation."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headtail.graph.csr import CSR


@dataclass(frozen=True)
class GraphView:
    """Links [2, E] that may be looked at, free of self-loops; undirected ones are stored once."""

    num_nodes: int
    directed: bool
    links: Tensor

    @cached_property
    def out_rows(self) -> CSR:
        """Head → tails. An undirected link counts as two directed ones."""
        return CSR.from_links(self.links if self.directed else both_ways(self.links), self.num_nodes)

    @cached_property
    def in_rows(self) -> CSR:
        """Tail → heads."""
        return self.out_rows.transpose() if self.directed else self.out_rows

    @cached_property
    def neighbours(self) -> CSR:
        """The symmetric graph without self-loops, also for directed data."""
        return CSR.from_links(both_ways(self.links), self.num_nodes) if self.directed else self.out_rows

    def with_links(self, more: Tensor) -> "GraphView":
        """Returns a view that sees further links too."""
        return GraphView(self.num_nodes, self.directed, torch.cat([self.links, more], dim=1))

    def to(self, device: torch.device | str) -> "GraphView":
        return GraphView(self.num_nodes, self.directed, self.links.to(device))


def both_ways(links: Tensor) -> Tensor:
    """Returns links [2, 2E]: each link and its reverse."""
    return torch.cat([links, links.flip(0)], dim=1)
