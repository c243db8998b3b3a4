"""Training objectives: what the scores of positives and negatives should satisfy (docs/method.md, 5)."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from headtail.registry import Registry

# (positive [P], negative [Q], negative_of [Q]) → scalar
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]
OBJECTIVES: Registry[Objective] = Registry("objective")

# Settings that choose by the metric: the objective for MRR, and the one for Hits@K.
BY_METRIC = {"auto": ("cross_entropy", "squared_hinge"), "smooth": ("cross_entropy", "logistic")}


@OBJECTIVES.register("squared_hinge")
def squared_hinge(positive: Tensor, negative: Tensor, negative_of: Tensor) -> Tensor:
    """Every negative one below its positive, mean of the squared shortfall (for Hits@K)."""
    return _mean(F.relu(1 - (positive[negative_of] - negative)).square())


@OBJECTIVES.register("logistic")
def logistic(positive: Tensor, negative: Tensor, negative_of: Tensor) -> Tensor:
    """Every negative below its positive, mean of log(1 + e^(negative − positive)): a smooth count of wrong orders."""
    return _mean(F.softplus(negative - positive[negative_of]))


@OBJECTIVES.register("cross_entropy")
def cross_entropy(positive: Tensor, negative: Tensor, negative_of: Tensor) -> Tensor:
    """Binary cross-entropy, positives and negatives weighing the same in total (for MRR)."""
    return _mean(F.softplus(-positive)) + _mean(F.softplus(negative))


def _mean(losses: Tensor) -> Tensor:
    """The mean; 0 over nothing, since a batch whose heads are linked to every node has no negatives."""
    return losses.sum() / max(1, losses.numel())
