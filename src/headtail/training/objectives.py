"""Training objectives: what the scores of positives and negatives should satisfy (docs/method.md, 5)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels import entropy, hinge
from headtail.kernels.launch import fused
from headtail.ranks import ALONE, Ranks
from headtail.registry import Registry
from headtail.sampling.sampler import Counts


@dataclass(frozen=True)
class Shares:
    """What each of the scores given as positives [P] and as negatives [Q] counts.

    Over all `ranks`, those of positives sum to 1, or are all 0, and so do those of negatives.
    """

    positive: Tensor
    negative: Tensor
    ranks: Ranks = ALONE


@dataclass(frozen=True)
class PaddedShares:
    """What each of a padded batch's scores counts, of positives, then of negatives, then of padding.

    All are [size] and padding counts nothing, so the same list of scores serves as both.
    """

    counts: Counts
    size: int
    ranks: Ranks = ALONE

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


AnyShares = Shares | PaddedShares


def shares_across(ranks: Ranks, positive: Tensor, negative: Tensor) -> Shares | None:
    """Returns what this rank's scores of positives [P] and negatives [Q] count among all ranks'; None: it has all."""
    if not ranks.several:
        return None
    counts = torch.tensor([positive.numel(), negative.numel()], device=positive.device)
    of_positives, of_negatives = 1 / ranks.sum(counts).clamp(min=1)
    return Shares(of_positives.expand(positive.numel()), of_negatives.expand(negative.numel()), ranks)


class Objective(Protocol):
    """Judges the scores of positives [P] and negatives [Q], the q-th belonging to the positive negative_of[q]."""

    def __call__(
        self, positive: Tensor, negative: Tensor, negative_of: Tensor, shares: AnyShares | None = None
    ) -> Tensor: ...


OBJECTIVES: Registry[Objective] = Registry("objective")

# The power of σ(score) by which `focused` weighs a negative; 0 would be cross-entropy.
FOCUS = 0.5
# Belief in padding: e to this power is 0.
FARTHEST = -1e9


@OBJECTIVES.register("squared_hinge")
def squared_hinge(positive: Tensor, negative: Tensor, negative_of: Tensor, shares: AnyShares | None = None) -> Tensor:
    """Every negative one below its positive, mean of the squared shortfall (for Hits@K)."""
    if isinstance(shares, PaddedShares) and fused(positive):
        return hinge.squared_hinge(positive, negative_of, shares.counts.positives, shares.counts.pairs)
    return _mean(F.relu(1 - (positive[negative_of] - negative)).square(), None if shares is None else shares.negative)


@OBJECTIVES.register("cross_entropy")
def cross_entropy(positive: Tensor, negative: Tensor, negative_of: Tensor, shares: AnyShares | None = None) -> Tensor:
    """Binary cross-entropy, positives and negatives weighing the same in total (for MRR)."""
    if isinstance(shares, PaddedShares) and fused(positive):
        return entropy.cross_entropy(positive, shares.counts.positives, shares.counts.pairs)
    of_positives = _mean(F.softplus(-positive), None if shares is None else shares.positive)
    return of_positives + _mean(F.softplus(negative), None if shares is None else shares.negative)


@OBJECTIVES.register("focused")
def focused(positive: Tensor, negative: Tensor, negative_of: Tensor, shares: AnyShares | None = None) -> Tensor:
    """Cross-entropy in which a negative weighs the more the more it is believed: as √σ(score), in total 1.

    Almost all pairs are easily told to be unlinked, and few of them decide a ranking's top. The best scores rank pairs
    as those of cross-entropy do, but are learned where it matters.
    """
    belief = FOCUS * F.logsigmoid(negative.detach())
    if shares is None:
        weights = belief.softmax(dim=0)
    else:
        real = shares.negative > 0
        belief = belief.masked_fill(~real, FARTHEST)
        weights = belief.softmax(dim=0) * real * _share_of_belief(belief, shares.ranks)
    return (
        _mean(F.softplus(-positive), None if shares is None else shares.positive)
        + (weights * F.softplus(negative)).sum()
    )


def _share_of_belief(belief: Tensor, ranks: Ranks) -> Tensor | float:
    """Returns this rank's share of e to the power of all ranks' belief."""
    if not ranks.several:
        return 1.0
    return ranks.each(belief.logsumexp(dim=0)).softmax(dim=0)[ranks.rank]


def _mean(losses: Tensor, shares: Tensor | None) -> Tensor:
    """The mean; 0 over nothing, since a batch whose heads are linked to every node has no negatives."""
    return losses.sum() / max(1, losses.numel()) if shares is None else (losses * shares).sum()
