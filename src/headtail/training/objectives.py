"""Training objectives: what the scores of positives and negatives should satisfy (docs/method.md, 5)."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from headtail.registry import Registry

# (positive [P], negative [Q], negative_of [Q]) → scalar
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]
OBJECTIVES: Registry[Objective] = Registry("objective")

# The power of σ(score) by which `focused` weighs a negative; 0 would be cross-entropy.
FOCUS = 0.5


@OBJECTIVES.register("squared_hinge")
def squared_hinge(positive: Tensor, negative: Tensor, negative_of: Tensor) -> Tensor:
    """Every negative one below its positive, mean of the squared shortfall (for Hits@K)."""
    return _mean(F.relu(1 - (positive[negative_of] - negative)).square())


@OBJECTIVES.register("cross_entropy")
def cross_entropy(positive: Tensor, negative: Tensor, negative_of: Tensor) -> Tensor:
    """Binary cross-entropy, positives and negatives weighing the same in total (for MRR)."""
    return _mean(F.softplus(-positive)) + _mean(F.softplus(negative))


@OBJECTIVES.register("focused")
def focused(positive: Tensor, negative: Tensor, negative_of: Tensor) -> Tensor:
    """Cross-entropy in which a negative weighs the more the more it is believed: as √σ(score), in total 1.

    Almost all pairs are easily told to be unlinked, and few of them decide a ranking's top. The best scores rank pairs
    as those of cross-entropy do, but are learned where it matters.
    """
    weights = (FOCUS * F.logsigmoid(negative.detach())).softmax(dim=0)
    return _mean(F.softplus(-positive)) + (weights * F.softplus(negative)).sum()


def _mean(losses: Tensor) -> Tensor:
    """The mean; 0 over nothing, since a batch whose heads are linked to every node has no negatives."""
    return losses.sum() / max(1, losses.numel())
