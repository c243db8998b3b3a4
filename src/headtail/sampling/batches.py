"""Which training links form a batch: row by row (eq. 12, Algorithm 1) or edge by edge (eq. 10).

Batches are drawn over *rows* of the supervision: the side that the GNN encodes. Rows are heads, or tails in
the reversed method AML-R, where the caller passes the transposed supervision.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.registry import Registry


@dataclass(frozen=True)
class Positives:
    """Training links of one batch as node numbers.

    Attributes:
        row, col: int64 [P], the two ends of each link.
        candidates: int64 [R], the rows that this batch may draw negatives from without extra cost; None
            where any node may serve.
        num_candidates: int64 [], how many of them there are where the list is padded.
    """

    row: Tensor
    col: Tensor
    candidates: Tensor | None
    num_candidates: Tensor | None = None


class LinkBatches(ABC):
    """Cuts the supervision (rows → columns) into batches of about `links_per_batch` links.

    An epoch has `batches_per_epoch` batches at least, of fewer links each, so that few links are also learned from in
    several steps.
    """

    def __init__(self, supervision: CSR, links_per_batch: int, batches_per_epoch: int = 1) -> None:
        self.supervision = supervision
        self.links_per_batch = max(1, min(links_per_batch, supervision.col.numel() // batches_per_epoch))

    @abstractmethod
    def __len__(self) -> int:
        """Batches per epoch."""

    @abstractmethod
    def epoch(self, generator: torch.Generator) -> Iterator[Positives]:
        """Yields every training link exactly once, in a fresh random order."""


BATCHES: Registry[type[LinkBatches]] = Registry("batch kind")


@BATCHES.register("rows")
class RowBatches(LinkBatches):
    """All links of about B̃ = B·N/|E| random rows; every node is a row once per epoch."""

    def __len__(self) -> int:
        # N/B̃ = |E|/B batches. Rows are dealt evenly, so there is no runt at the end of an epoch: its few
        # rows would weigh as much as a full batch in a step and in the running statistics.
        batches = -(-self.supervision.col.numel() // self.links_per_batch)
        return min(max(1, batches), self.supervision.num_rows)

    def order(self, generator: torch.Generator) -> Tensor:
        """Returns all rows in the order in which an epoch deals them."""
        return torch.randperm(self.supervision.num_rows, generator=generator, device=generator.device)

    @property
    def bounds(self) -> Tensor:
        """int64 [batches + 1] on the CPU: batch b has the rows bounds[b] … bounds[b + 1] − 1 of an order."""
        sizes = [part.numel() for part in torch.empty(self.supervision.num_rows).tensor_split(len(self))]
        return torch.tensor([0, *sizes]).cumsum(0)

    def epoch(self, generator: torch.Generator) -> Iterator[Positives]:
        for rows in self.order(generator).tensor_split(len(self)):
            owner, entry = self.supervision.entries_of(rows)
            yield Positives(rows[owner], self.supervision.col[entry], rows)


@BATCHES.register("edges")
class EdgeBatches(LinkBatches):
    """Shuffled links, dealt evenly into batches of at most B."""

    def __len__(self) -> int:
        return -(-self.supervision.col.numel() // self.links_per_batch)

    def epoch(self, generator: torch.Generator) -> Iterator[Positives]:
        links = self.supervision.col.numel()
        order = torch.randperm(links, generator=generator, device=generator.device)
        for entry in order.tensor_split(len(self)):
            yield Positives(self.supervision.row[entry], self.supervision.col[entry], None)
