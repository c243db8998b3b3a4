"""Scores pairs from the representations of all nodes: what a trained model hands to evaluation and serving."""

import torch
from torch import Tensor

from headtail.contract import PairScorer
from headtail.nn.scorer import HadamardScorer


class EmbeddingScorer(PairScorer):
    """Scores f(U_i ⊙ V_j); in undirected graphs the mean of both orientations.

    Args:
        heads, tails: float32 [N, r], every node as a head and as a tail.
        mlp: the scorer, in evaluation mode.
    """

    def __init__(self, heads: Tensor, tails: Tensor, mlp: HadamardScorer, directed: bool) -> None:
        self.heads, self.tails, self.mlp, self.directed = heads, tails, mlp, directed
        self.num_nodes = heads.shape[0]
        self.device = heads.device

    @torch.no_grad()
    def score(self, heads: Tensor, tails: Tensor) -> Tensor:
        scores: Tensor = self.mlp(self.heads, self.tails, torch.stack([heads, tails]))
        if self.directed:
            return scores
        back: Tensor = self.mlp(self.heads, self.tails, torch.stack([tails, heads]))
        return (scores + back) / 2

    @torch.no_grad()
    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        scores = self.mlp.score_rows(self.heads[heads], self.tails[first:last])
        if self.directed:
            return scores
        # U_j ⊙ V_i is the same product with the roles exchanged.
        return (scores + self.mlp.score_rows(self.tails[heads], self.heads[first:last])) / 2
