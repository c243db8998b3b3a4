"""Folds: the links of an epoch are learned part by part, each part hidden from the encoders while it is learned."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headtail.graph.view import GraphView
from headtail.sampling.batches import LinkBatches
from headtail.sampling.sampler import Batch, BatchSampler


@dataclass(frozen=True)
class FoldedBatches:
    """Deals the links of a view into folds, anew in every epoch, and learns each from a view of the others.

    Attributes:
        view: the links, on the device of the batches.
        folds: how many parts; a link alone is a part where there are fewer links.
        deal: cuts the links [2, E] of one fold into batches.
        sampler: makes the batches of one fold, encoded with the view of all other links.
    """

    view: GraphView
    folds: int
    deal: Callable[[Tensor], LinkBatches]
    sampler: Callable[[LinkBatches, GraphView], BatchSampler]

    def __len__(self) -> int:
        return self._batches

    @cached_property
    def _batches(self) -> int:
        """Batches per epoch: as links are distinct, any folds of these sizes make as many."""
        order = torch.arange(self.view.links.shape[1], device=self.view.links.device)
        return sum(len(self.deal(self.view.links[:, fold])) for fold in self._cut(order))

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yields the batches of one epoch, fold by fold."""
        links = self.view.links
        order = torch.randperm(links.shape[1], generator=generator, device=generator.device)
        for fold in self._cut(order):
            shown = torch.ones(links.shape[1], dtype=torch.bool, device=links.device)
            shown[fold] = False
            others = GraphView(self.view.num_nodes, self.view.directed, links[:, shown])
            yield from self.sampler(self.deal(links[:, fold]), others).epoch(generator)

    def _cut(self, order: Tensor) -> tuple[Tensor, ...]:
        return order.tensor_split(min(self.folds, order.numel()))
