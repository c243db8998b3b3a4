"""Ranking metrics: MRR and Hits@K, with the definitions of the Open Graph Benchmark."""

import re
from dataclasses import dataclass

from torch import Tensor

from headtail.errors import ConfigError, did_you_mean

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


def ranks_from_counts(above: Tensor, level: Tensor) -> Tensor:
    """Returns float64 [P]: 1 + the mean of the optimistic and the pessimistic count of rivals.

    Equal scores share the middle of the ranks they could take, so a constant score is no good rank.
    """
    return 1 + (above + level).double() / 2


def mrr(ranks: Tensor) -> float:
    """Returns the mean reciprocal rank of ranks [P]."""
    return float(ranks.double().reciprocal().mean())


def hits(ranks: Tensor, k: int) -> float:
    """Returns the share of ranks [P] that are at most k."""
    return float((ranks <= k).double().mean())
