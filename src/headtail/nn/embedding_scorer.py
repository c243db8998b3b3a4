"""Scores pairs from the representations of all nodes: what a trained model hands to evaluation and serving."""

import torch
from torch import Tensor

from headtail.contract import PairScorer
from headtail.graph.evidence import PairEvidence
from headtail.graph.tables import Table, rows_of
from headtail.nn.scorer import HadamardScorer


class EmbeddingScorer(PairScorer):
    """Scores f(U_i ⊙ V_j); in undirected graphs the mean of both orientations.

    Args:
        heads, tails: float32 or bfloat16 [N, r], every node as a head and as a tail; in host memory where they are
            large. Scores are computed in float32.
        mlp: the scorer, in evaluation mode.
        evidence: what the scorer reads beside U_i ⊙ V_j, if it does.
    """

    def __init__(
        self,
        heads: Table,
        tails: Table,
        mlp: HadamardScorer,
        directed: bool,
        evidence: PairEvidence | None = None,
    ) -> None:
        self.heads, self.tails, self.mlp, self.directed, self.evidence = heads, tails, mlp, directed, evidence
        self.num_nodes = heads.shape[0]
        self.device = heads.device

    @property
    def pair_bytes(self) -> int:
        """What `score` and `score_tails` hold of a pair, about: a layer's input and output, evidence on its way."""
        rows = 2 if self.evidence is None else 4
        return rows * torch.float32.itemsize * self.heads.shape[1] + 64

    @property
    def cell_bytes(self) -> int:
        """What `score_rows`, and a choice among its scores, hold of a pair, about; hidden values are few at a time."""
        return 64 if self.evidence is None else 128 + 12 * self.evidence.width

    @torch.no_grad()
    def score(self, heads: Tensor, tails: Tensor) -> Tensor:
        return self.score_tails(heads, tails[:, None]).squeeze(1)

    @torch.no_grad()
    def score_tails(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Returns float32 [B, T], the scores of every head [B] with its own tails [B, T].

        Cheaper than `score`, since a head's representation is read once.
        """
        there, back = self._evidence_of(heads, tails)
        scores = self.mlp.score_tails(self.heads, self.tails, heads, tails, there)
        if self.directed:
            return scores
        # U_j ⊙ V_i is the same product with the roles exchanged.
        return (scores + self.mlp.score_tails(self.tails, self.heads, heads, tails, back)) / 2

    def _evidence_of(self, heads: Tensor, tails: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Returns the evidence of the pairs [B · T, columns], and with their ends exchanged where that counts."""
        if self.evidence is None:
            return None, None
        head, tail = heads.repeat_interleave(tails.shape[1]), tails.reshape(-1)
        there = self.evidence.remembered(head, tail)
        return there, None if self.directed else self.evidence.remembered(tail, head)

    @torch.no_grad()
    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        there, back = (None, None) if self.evidence is None else self.evidence.rows(heads, first, last, self.directed)
        scores = self.mlp.score_rows(rows_of(self.heads, heads), rows_of(self.tails, slice(first, last)), there)
        if self.directed:
            return scores
        u, v = rows_of(self.tails, heads), rows_of(self.heads, slice(first, last))
        return (scores + self.mlp.score_rows(u, v, back)) / 2
