"""Statistics of all nodes, gathered block by block, for norms that evaluate with those of the graph."""

import torch
from torch import Tensor

from headtail.nn.norm import GraphNorm


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

    def settle(self, norm: GraphNorm) -> None:
        """Has a norm evaluate any rows with these statistics."""
        norm.statistics = "running"
        norm.running_mean.copy_(self.mean)
        # As `moments` in kernels.finish: the spread is around α·mean.
        norm.running_spread.copy_(self.squares / self.rows + (1 - norm.alpha) ** 2 * self.mean**2)
