"""Statistics of all nodes, gathered block by block, for norms that evaluate with those of the graph."""

import torch
from torch import Tensor

from headtail.nn.norm import GraphNorm
from headtail.nn.norm_across import joined_moments
from headtail.ranks import ALONE, Ranks


class ColumnMoments:
    """Mean and variance of every column over all rows that were added."""

    def __init__(self) -> None:
        self.rows = 0
        self.mean = self.squares = torch.zeros(())

    def add(self, block: Tensor) -> None:
        """Takes in rows [n, d].

        Blocks are centred by their own mean before they are joined (Chan, Golub and LeVeque), which loses no digits
        where the mean is large.
        """
        block = block.float() if block.dtype == torch.bfloat16 else block
        rows, mean = block.shape[0], block.mean(dim=0)
        squares = (block - mean).square_().sum(dim=0)
        if self.rows:
            away, share = mean - self.mean, rows / (self.rows + rows)
            squares += self.squares + away.square() * (self.rows * share)
            mean = self.mean + away * share
        self.rows, self.mean, self.squares = self.rows + rows, mean, squares

    def settle(self, norm: GraphNorm, ranks: Ranks = ALONE) -> None:
        """Has a norm evaluate any rows with these statistics; those of the rows of all `ranks`."""
        mean, variance = self.mean, self.squares / max(1, self.rows)
        if ranks.several:  # a rank may have no rows
            own = (moment.to(norm.alpha).expand_as(norm.alpha) for moment in (self.mean, self.squares))
            mean, variance, _ = joined_moments(ranks, torch.tensor(self.rows), *own)
        norm.statistics = "running"
        norm.running_mean.copy_(mean)
        # As `moments` in kernels.finish: the spread is around α·mean.
        norm.running_spread.copy_(variance + (1 - norm.alpha) ** 2 * mean**2)
