"""The definitions of the Open Graph Benchmark, restated in NumPy, and a scorer that looks scores up."""

import numpy as np
import torch
from torch import Tensor

from headtail.contract import Scorer


def ogb_ranks(positives: Tensor, negatives: Tensor) -> np.ndarray:
    """Returns float64 [P], the rank of each positive score [P] among its own negatives [P, K]."""
    own, rivals = positives.numpy()[:, None], negatives.numpy()
    optimistic, pessimistic = (rivals > own).sum(axis=1), (rivals >= own).sum(axis=1)
    return 0.5 * (optimistic + pessimistic) + 1


def ogb_mrr_list(positives: Tensor, negatives: Tensor) -> dict[str, float]:
    ranking = ogb_ranks(positives, negatives)
    return {"mrr": (1 / ranking).mean()} | {f"hits@{k}": (ranking <= k).mean() for k in (1, 3, 10)}


def ogb_hits(positives: Tensor, negatives: Tensor, k: int) -> float:
    """Returns the share of positives [P] above the k-th best of shared negatives [M]."""
    if len(negatives) < k:
        return 1.0
    kth = np.sort(negatives.numpy())[::-1][k - 1]
    return float((positives.numpy() > kth).mean())


class TableScorer(Scorer):
    """Looks scores up in a table [N, N] and remembers the largest block it was asked for."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.num_nodes, self.device = table, table.shape[0], table.device
        self.largest = 0

    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        assert heads.shape == tails.shape
        assert heads.dtype == tails.dtype == torch.long
        self.largest = max(self.largest, heads.numel())
        return self.table[heads, tails]
