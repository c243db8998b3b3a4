"""Scores pairs from the representations of all nodes: what a trained model hands to evaluation and serving."""

from copy import copy
from typing import Any

import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.graph.evidence import PairEvidence, RememberedEvidence
from headtail.graph.kept import Kept, State, within
from headtail.graph.tables import Table, mapped_table, rows_of, values_of
from headtail.nn.scorer import HadamardScorer


class EmbeddingScorer(Scorer):
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
        evidence: PairEvidence | RememberedEvidence | None = None,
    ) -> None:
        self.heads, self.tails, self.mlp, self.directed, self.evidence = heads, tails, mlp, directed, evidence
        self.num_nodes = heads.shape[0]
        self.device = heads.device
        # A pair's rows: a layer's input and output, evidence on its way. Of a cell, hidden values are few at a time.
        self.pair_bytes = (2 if evidence is None else 4) * torch.float32.itemsize * heads.shape[1] + 64
        self.cell_bytes = 64 if evidence is None else 128 + 12 * evidence.width
        self.pair_microseconds = (1 if evidence is None else 10) / (100 if self.device.type == "cuda" else 1)

    def state(self) -> State:
        tables = {"heads": values_of(self.heads)}
        if self.tails is not self.heads:
            tables["tails"] = values_of(self.tails)
        return tables | (within("evidence", self.evidence.state()) if isinstance(self.evidence, PairEvidence) else {})

    @torch.no_grad()
    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        return self.score_tails(heads, tails[:, None]).squeeze(1)

    @torch.no_grad()
    def score_tails(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Returns float32 [B, T], the scores of every head [B] with its own tails [B, T].

        Cheaper than `score`, since a head's representation is read once.
        """
        named = tails.clamp(min=0)
        there, back = self._evidence_of(heads, named)
        scores = self.mlp.score_tails(self.heads, self.tails, heads, named, there)
        if not self.directed:  # U_j ⊙ V_i is the same product with the roles exchanged
            scores = (scores + self.mlp.score_tails(self.tails, self.heads, heads, named, back)) / 2
        return scores.masked_fill_(tails < 0, -torch.inf)

    def _evidence_of(self, heads: Tensor, tails: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Returns the evidence of the pairs [B · T, columns], and with their ends exchanged where that counts."""
        if self.evidence is None:
            return None, None
        head, tail = heads.repeat_interleave(tails.shape[1]), tails.reshape(-1)
        there = self.evidence(head, tail)
        return there, None if self.directed else self.evidence(tail, head)

    def remembering(self, memory: dict[Any, Any]) -> "EmbeddingScorer":
        if self.evidence is None:
            return self
        assert isinstance(self.evidence, PairEvidence)
        other = copy(self)
        other.evidence = RememberedEvidence(self.evidence, memory)
        return other

    @torch.no_grad()
    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        there, back = (None, None) if self.evidence is None else self.evidence.rows(heads, first, last, self.directed)
        scores = self.mlp.score_rows(rows_of(self.heads, heads), rows_of(self.tails, slice(first, last)), there)
        if self.directed:
            return scores
        u, v = rows_of(self.tails, heads), rows_of(self.heads, slice(first, last))
        return (scores + self.mlp.score_rows(u, v, back)) / 2


def kept_tables(kept: Kept, num_nodes: int, mlp: HadamardScorer, device: torch.device) -> tuple[Table, Table] | None:
    """Returns the tables that an `EmbeddingScorer` of these nodes kept, for use on a device; None where there are none.

    Raises:
        RunError: they are damaged.
    """
    shape = num_nodes, mlp.last.in_features
    heads, tails = (kept.table(name, *shape, kinds=(torch.float32, torch.bfloat16)) for name in ("heads", "tails"))
    if heads is None:
        return None
    first = mapped_table(heads, device)
    return first, first if tails is None else mapped_table(tails, device)
