"""Evidence about the pairs of a batch, each positive and its negatives seen in the same graph."""

from functools import cached_property

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.evidence import PairEvidence
from headtail.sampling.batches import Positives
from headtail.sampling.negatives import Negatives, NegativeSpace, draw_negatives

# Evidence of training links is the same in every epoch; up to this many numbers of it are kept.
MOST_KEPT = 2**28
# Training links whose evidence, with that of as many negatives, says what its columns usually are.
SAMPLED_LINKS = 2**14


class BatchEvidence:
    """Looks up the evidence of positives and negatives.

    A positive is never evidence for itself, and where a negative keeps the head of its positive, that link is hidden
    from the negative too: otherwise the two would differ by the link and not by what surrounds it.

    Args:
        evidence: looks up any pairs.
        rows_are_tails: True in the reversed method, whose rows are tail nodes.
        links: the training links, where they are the same in every epoch: these are looked up once.
    """

    def __init__(self, evidence: PairEvidence, rows_are_tails: bool = False, links: CSR | None = None) -> None:
        self.evidence, self.rows_are_tails, self.links = evidence, rows_are_tails, links

    def __call__(self, positives: Positives, negatives: Negatives) -> Tensor:
        """Returns float32 [P + Q, columns], of the positives, then of the negatives."""
        heads, tails = self._oriented(negatives)
        true_heads, true_tails = (nodes[negatives.positive] for nodes in self._oriented(positives))
        hidden = torch.where(heads == true_heads, true_tails, tails)
        return torch.cat([self._of_positives(positives), self.evidence(heads, tails, hidden=hidden)])

    def _of_positives(self, positives: Positives) -> Tensor:
        if self.links is None or self._kept is None:
            return self.evidence(*self._oriented(positives))
        entry, _ = self.links.find(positives.row, positives.col)
        return self._kept[entry]

    @cached_property
    def _kept(self) -> Tensor | None:
        """float32 [entries, columns], the evidence of every training link, where memory allows."""
        if self.links is None or self.links.col.numel() * self.evidence.width > MOST_KEPT:
            return None
        return self.evidence(*self._oriented(self.links))

    def _oriented(self, pairs: Positives | Negatives | CSR) -> tuple[Tensor, Tensor]:
        """Returns the heads and the tails of pairs of rows and columns."""
        return (pairs.col, pairs.row) if self.rows_are_tails else (pairs.row, pairs.col)


def sampled_evidence(
    evidence: BatchEvidence, links: CSR, kind: str, space: NegativeSpace, generator: torch.Generator
) -> Tensor:
    """Returns the evidence of some of the links, and of as many negatives of that kind."""
    pick = torch.randint(links.col.numel(), (SAMPLED_LINKS,), generator=generator, device=links.device)
    sample = Positives(links.row[pick], links.col[pick], None)
    return evidence(sample, draw_negatives(kind, space, sample, 1, generator))
