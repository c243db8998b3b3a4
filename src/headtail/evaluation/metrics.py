"""Ranking metrics: MRR and Hits@K, with the definitions of the Open Graph Benchmark."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.errors import ConfigError, did_you_mean
from headtail.evaluation.nan import refuse_counted_nan

# What is named where a metric is not understood, and reported beside the one that was asked for.
MRR_COMPANIONS = (1, 3, 10)
HITS_COMPANIONS = (20, 50, 100)


@dataclass(frozen=True)
class Metric:
    """A ranking metric: MRR over each positive's own negatives, or Hits@K against shared negatives.

    Attributes:
        k: the K of Hits@K, None for MRR.
    """

    k: int | None = None

    @staticmethod
    def parse(name: str) -> "Metric":
        """Reads "mrr" or "hits@50".

        Raises:
            ConfigError: the name is no metric.
        """
        if name == "mrr":
            return Metric()
        found = re.fullmatch(r"hits@([1-9][0-9]*)", name)
        if found is None:
            valid = ["mrr", *(f"hits@{k}" for k in HITS_COMPANIONS)]
            raise ConfigError(f"unknown metric {name!r}; {did_you_mean(name, valid)}")
        return Metric(int(found[1]))

    @property
    def name(self) -> str:
        return "mrr" if self.k is None else f"hits@{self.k}"

    @property
    def reported_ks(self) -> tuple[int, ...]:
        """Every K whose Hits@K is reported with this metric, ascending."""
        if self.k is None:
            return MRR_COMPANIONS
        return tuple(sorted({self.k, *HITS_COMPANIONS}))


def refuse_nan(scores: Tensor, what: str) -> Tensor:
    """Returns the scores as they are.

    Raises:
        DataError: some are NaN. Every comparison with NaN is false, so they would be ranked as the best.
    """
    refuse_counted_nan(int(torch.isnan(scores).sum()), scores.numel(), what)
    return scores


def count_rivals(positives: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Counts the negatives [P, K] that stand above their positive [P].

    Returns:
        above: int64 [P], negatives with a strictly higher score (the optimistic count).
        level: int64 [P], negatives with a higher or equal score (the pessimistic count).
    """
    refuse_nan(positives, "positives")
    refuse_nan(negatives, "negatives")
    rival = positives[:, None]
    return (negatives > rival).sum(dim=1), (negatives >= rival).sum(dim=1)


def ranks_from_counts(above: Tensor, level: Tensor) -> Tensor:
    """Returns float64 [P]: 1 + the mean of the optimistic and the pessimistic count of rivals."""
    return 1 + (above + level).double() / 2


def ranks(positives: Tensor, negatives: Tensor) -> Tensor:
    """Returns float64 [P], the rank of each positive score [P] among its own negative scores [P, K].

    Equal scores share the middle of the ranks they could take, so a constant score is no good rank.
    """
    return ranks_from_counts(*count_rivals(positives, negatives))


def mrr(ranks: Tensor) -> float:
    """Returns the mean reciprocal rank of ranks [P]."""
    return float(ranks.double().reciprocal().mean())


def hits(ranks: Tensor, k: int) -> float:
    """Returns the share of ranks [P] that are at most k."""
    return float((ranks <= k).double().mean())


def hits_threshold(best_negatives: Tensor, k: int) -> float | None:
    """Returns the score a positive must exceed to be a hit.

    Args:
        best_negatives: the highest scores of shared negatives, descending; at least k where there are k.
        k: the K of Hits@K.

    Returns:
        The k-th best negative score; None with fewer than k negatives, where every positive is a hit.
    """
    return float(best_negatives[k - 1]) if best_negatives.numel() >= k else None


def count_hits(positives: Tensor, threshold: float | None) -> int:
    """Counts the positive scores [P] strictly above a threshold of `hits_threshold`."""
    refuse_nan(positives, "positives")
    return positives.numel() if threshold is None else int((positives > threshold).sum())


def hits_shared(positives: Tensor, negatives: Tensor, k: int) -> float:
    """Returns the share of positive scores [P] strictly above the k-th best of shared negatives [M].

    1.0 where there are fewer than k negatives.
    """
    refuse_nan(negatives, "negatives")
    best = negatives.topk(min(k, negatives.numel())).values
    return count_hits(positives, hits_threshold(best, k)) / positives.numel()
