"""Which training links form a batch: row by row (eq. 12, Algorithm 1) or edge by edge (eq. 10).

Batches are drawn over *rows* of the supervision: the side that the GNN encodes. Rows are heads, or tails in
the reversed method AML-R, where the caller passes the transposed supervision.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
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

    @property
    @abstractmethod
    def num_items(self) -> int:
        """What an epoch deals: rows, or links."""

    @abstractmethod
    def positives(self, items: Tensor) -> Positives:
        """Returns the links of some items."""

    @abstractmethod
    def has_links(self, items: Tensor) -> bool:
        """Whether some items have any links."""

    def order(self, generator: torch.Generator) -> Tensor:
        """Returns all items in the order in which an epoch deals them."""
        return torch.randperm(self.num_items, generator=generator, device=generator.device)

    @property
    def bounds(self) -> Tensor:
        """int64 [batches + 1] on the CPU: batch b has the items bounds[b] … bounds[b + 1] − 1 of an order."""
        each, more = divmod(self.num_items, len(self))
        sizes = torch.full((len(self),), each)
        sizes[:more] += 1
        return F.pad(sizes.cumsum(0), (1, 0))

    def epoch(self, generator: torch.Generator) -> Iterator[Positives]:
        """Yields every training link exactly once, in a fresh random order."""
        for items in self.order(generator).tensor_split(len(self)):
            yield self.positives(items)


BATCHES: Registry[type[LinkBatches]] = Registry("batch kind")


@BATCHES.register("rows")
class RowBatches(LinkBatches):
    """All links of about B̃ = B·N/|E| random rows; every node is a row once per epoch."""

    def __len__(self) -> int:
        # N/B̃ = |E|/B batches. Rows are dealt evenly, so there is no runt at the end of an epoch: its few
        # rows would weigh as much as a full batch in a step and in the running statistics.
        batches = -(-self.supervision.col.numel() // self.links_per_batch)
        return min(max(1, batches), self.supervision.num_rows)

    @property
    def num_items(self) -> int:
        return self.supervision.num_rows

    def positives(self, items: Tensor) -> Positives:
        owner, entry = self.supervision.entries_of(items)
        return Positives(items[owner], self.supervision.col[entry], items)

    def has_links(self, items: Tensor) -> bool:
        return bool(self.supervision.degrees[items].any())


@BATCHES.register("edges")
class EdgeBatches(LinkBatches):
    """Shuffled links, dealt evenly into batches of at most B."""

    def __len__(self) -> int:
        return -(-self.supervision.col.numel() // self.links_per_batch)

    @property
    def num_items(self) -> int:
        return self.supervision.col.numel()

    def positives(self, items: Tensor) -> Positives:
        return Positives(self.supervision.row[items], self.supervision.col[items], None)

    def has_links(self, items: Tensor) -> bool:
        return items.numel() > 0
