"""Training objectives: what the scores of positives and negatives should satisfy (docs/method.md, 5)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels import entropy
from headtail.kernels.launch import fused
from headtail.registry import Registry
from headtail.sampling.sampler import Counts


@dataclass(frozen=True)
class Shares:
    """What each of a padded batch's scores counts, of positives, then of negatives, then of padding.

    The shares of positives sum to 1, or are all 0, and so do those of negatives; all are [size], so that the same list
    of scores may serve as both.
    """

    counts: Counts
    size: int

    @cached_property
    def positive(self) -> Tensor:
        return self._is_positive / self.counts.positives.clamp(min=1)

    @cached_property
    def negative(self) -> Tensor:
        real = torch.arange(self.size, device=self.counts.pairs.device) < self.counts.pairs
        return (real & ~self._is_positive) / (self.counts.pairs - self.counts.positives).clamp(min=1)

    @cached_property
    def _is_positive(self) -> Tensor:
        return torch.arange(self.size, device=self.counts.pairs.device) < self.counts.positives


class Objective(Protocol):
    """Judges the scores of positives [P] and negatives [Q], the q-th belonging to the positive negative_of[q]."""

    def __call__(
        self, positive: Tensor, negative: Tensor, negative_of: Tensor, shares: Shares | None = None
    ) -> Tensor: ...


OBJECTIVES: Registry[Objective] = Registry("objective")

# The power of σ(score) by which `focused` weighs a negative; 0 would be cross-entropy.
FOCUS = 0.5
# Belief in padding: e to this power is 0.
FARTHEST = -1e9


@OBJECTIVES.register("squared_hinge")
def squared_hinge(positive: Tensor, negative: Tensor, negative_of: Tensor, shares: Shares | None = None) -> Tensor:
    """Every negative one below its positive, mean of the squared shortfall (for Hits@K)."""
    return _mean(F.relu(1 - (positive[negative_of] - negative)).square(), None if shares is None else shares.negative)


@OBJECTIVES.register("cross_entropy")
def cross_entropy(positive: Tensor, negative: Tensor, negative_of: Tensor, shares: Shares | None = None) -> Tensor:
    """Binary cross-entropy, positives and negatives weighing the same in total (for MRR)."""
    if shares is not None and positive is negative and fused(positive):
        return entropy.cross_entropy(positive, shares.counts.positives, shares.counts.pairs)
    of_positives = _mean(F.softplus(-positive), None if shares is None else shares.positive)
    return of_positives + _mean(F.softplus(negative), None if shares is None else shares.negative)


@OBJECTIVES.register("focused")
def focused(positive: Tensor, negative: Tensor, negative_of: Tensor, shares: Shares | None = None) -> Tensor:
    """Cross-entropy in which a negative weighs the more the more it is believed: as √σ(score), in total 1.

    Almost all pairs are easily told to be unlinked, and few of them decide a ranking's top. The best scores rank pairs
    as those of cross-entropy do, but are learned where it matters.
    """
    belief = FOCUS * F.logsigmoid(negative.detach())
    if shares is None:
        weights = belief.softmax(dim=0)
    else:
        real = shares.negative > 0
        weights = belief.masked_fill(~real, FARTHEST).softmax(dim=0) * real
    return (
        _mean(F.softplus(-positive), None if shares is None else shares.positive)
        + (weights * F.softplus(negative)).sum()
    )


def _mean(losses: Tensor, shares: Tensor | None) -> Tensor:
    """The mean; 0 over nothing, since a batch whose heads are linked to every node has no negatives."""
    return losses.sum() / max(1, losses.numel()) if shares is None else (losses * shares).sum()
