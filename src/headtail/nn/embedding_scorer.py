"""Scores pairs from the representations of all nodes: what a trained model hands to evaluation and serving."""

import torch
from torch import Tensor

from headtail.contract import PairScorer
from headtail.graph.evidence import PairEvidence
from headtail.nn.scorer import HadamardScorer
from headtail.sampling.places import PairPlaces


class EmbeddingScorer(PairScorer):
    """Scores f(U_i ⊙ V_j); in undirected graphs the mean of both orientations.

    Args:
        heads, tails: float32 [N, r], every node as a head and as a tail.
        mlp: the scorer, in evaluation mode.
        evidence: what the scorer reads beside U_i ⊙ V_j, if it does.
    """

    def __init__(
        self,
        heads: Tensor,
        tails: Tensor,
        mlp: HadamardScorer,
        directed: bool,
        evidence: PairEvidence | None = None,
    ) -> None:
        self.heads, self.tails, self.mlp, self.directed, self.evidence = heads, tails, mlp, directed, evidence
        self.num_nodes = heads.shape[0]
        self.device = heads.device

    @torch.no_grad()
    def score(self, heads: Tensor, tails: Tensor) -> Tensor:
        scores = self._one_way(heads, tails)
        return scores if self.directed else (scores + self._one_way(tails, heads)) / 2

    def _one_way(self, heads: Tensor, tails: Tensor) -> Tensor:
        evidence = None if self.evidence is None else self.evidence.remembered(heads, tails)
        scores: Tensor = self.mlp(self.heads, self.tails, PairPlaces(torch.stack([heads, tails])), evidence)
        return scores

    @torch.no_grad()
    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        there, back = (None, None) if self.evidence is None else self.evidence.rows(heads, first, last, self.directed)
        scores = self.mlp.score_rows(self.heads[heads], self.tails[first:last], there)
        if self.directed:
            return scores
        # U_j ⊙ V_i is the same product with the roles exchanged.
        return (scores + self.mlp.score_rows(self.tails[heads], self.heads[first:last], back)) / 2
