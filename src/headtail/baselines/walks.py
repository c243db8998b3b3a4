"""Random walks of many walkers at once: unbiased, or biased by where the last step came from (Node2vec)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.baselines.sparse import spans
from headtail.graph.csr import CSR

# Rounds of draw-and-reject before the walkers still undecided get the exact weights of all their neighbours.
ROUNDS = 8
# Neighbours whose weights are computed at once; a single walker's may exceed it.
BLOCK_ENTRIES = 2**22


@dataclass(frozen=True)
class Walker:
    """Walks along the neighbours of a symmetric graph.

    A step from v, which was entered from t, goes to the neighbour x with a probability proportional to
    `return_weight` (1/p) where x = t, 1 where x is a neighbour of t, and `explore_weight` (1/q) elsewhere. The
    first step, and every step where both weights are 1, is uniform.
    """

    neighbours: CSR
    return_weight: float = 1.0
    explore_weight: float = 1.0

    def walk(self, starts: Tensor, length: int, generator: torch.Generator) -> Tensor:
        """Returns int64 [S, length], the nodes of one walk per start; a node without neighbours is never left."""
        nodes = [starts]
        for step in range(1, length):
            if step == 1 or self.return_weight == self.explore_weight == 1:
                nodes.append(self._uniform(nodes[-1], generator))
            else:
                nodes.append(self._biased(nodes[-2], nodes[-1], generator))
        return torch.stack(nodes, dim=1)

    def _uniform(self, here: Tensor, generator: torch.Generator) -> Tensor:
        if self.neighbours.col.numel() == 0:
            return here
        degree = self.neighbours.degrees[here]
        # Doubles, because a float32 below 1 times a large degree can round up to the degree.
        chance = torch.rand(here.numel(), generator=generator, device=here.device, dtype=torch.float64)
        entry = self.neighbours.row_ptr[here] + (chance * degree).long()
        reached = self.neighbours.col[entry.clamp_(max=self.neighbours.col.numel() - 1)]
        return torch.where(degree > 0, reached, here)

    def _biased(self, before: Tensor, here: Tensor, generator: torch.Generator) -> Tensor:
        """Draws a neighbour uniformly and accepts it in proportion to its weight, which needs no other weight."""
        chosen = self._uniform(here, generator)
        # With at most one neighbour there is no choice, however small its weight.
        open_ = (self.neighbours.degrees[here] > 1).nonzero().squeeze(1)
        largest = max(self.return_weight, self.explore_weight, 1.0)
        for _ in range(ROUNDS):
            if open_.numel() == 0:
                return chosen
            chosen[open_] = self._uniform(here[open_], generator)
            weight = self._weight(before[open_], chosen[open_])
            chance = torch.rand(open_.numel(), generator=generator, device=here.device)
            open_ = open_[chance * largest >= weight]
        chosen[open_] = self._exact(before[open_], here[open_], generator)
        return chosen

    def _weight(self, before: Tensor, to: Tensor) -> Tensor:
        """float32 [P], the weight of going to `to` [P] for a walker who came from `before` [P]."""
        near = self.neighbours.contains(before, to)
        weight = torch.where(near, 1.0, self.explore_weight)
        return torch.where(to == before, self.return_weight, weight)

    def _exact(self, before: Tensor, here: Tensor, generator: torch.Generator) -> Tensor:
        """Draws from the weights of all neighbours: costs a degree per walker, but always ends."""
        degrees = self.neighbours.degrees[here]
        chosen = torch.empty_like(here)
        for first, last in spans(degrees.cpu().numpy(), BLOCK_ENTRIES):
            owner, entry = self.neighbours.entries_of(here[first:last])
            to = self.neighbours.col[entry]
            total = self._weight(before[first:last][owner], to).double().cumsum(0)
            end = degrees[first:last].cumsum(0)
            upper = total[end - 1]
            lower = torch.cat([upper.new_zeros(1), upper[:-1]])
            chance = torch.rand(last - first, generator=generator, device=here.device, dtype=torch.float64)
            place = torch.searchsorted(total, lower + chance * (upper - lower), right=True)
            # Rounding must not carry a walker over the end of its own neighbours.
            chosen[first:last] = to[torch.minimum(place, end - 1)]
        return chosen
