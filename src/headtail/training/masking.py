"""Masked epochs: some links are learned from and hidden from the encoders, the rest is the message graph."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headtail.graph.view import GraphView
from headtail.sampling.sampler import Batch, BatchSampler


@dataclass(frozen=True)
class MaskedBatches:
    """Draws, for every epoch anew, the share of a view's links that is learned from.

    `sampler` makes the batches of links [2, E] to learn from, with a view of the others to encode.
    """

    view: GraphView
    share: float
    sampler: Callable[[Tensor, GraphView], BatchSampler]

    @property
    def _count(self) -> int:
        return max(1, round(self.share * self.view.links.shape[1]))

    def __len__(self) -> int:
        return self._batches

    @cached_property
    def _batches(self) -> int:
        """Batches per epoch: as links are distinct, any links to learn from make as many. Kept, for a sampler costs."""
        return len(self.sampler(self.view.links[:, : self._count], self.view))

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yields the batches of one epoch."""
        order = torch.randperm(self.view.links.shape[1], generator=generator, device=generator.device).cpu()
        shown = self.view.links[:, order[self._count :]]
        hidden = self.view.links[:, order[: self._count]]
        yield from self.sampler(hidden, GraphView(self.view.num_nodes, self.view.directed, shown)).epoch(generator)
