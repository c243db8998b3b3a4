"""GraphNorm over a batch's rows, with running statistics, and the steps that follow it in every layer."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.kernels.finish import EPSILON, Running, finish, finish_with, moments
from headtail.kernels.judge import judge
from headtail.kernels.launch import fused
from headtail.kernels.layer import finish_product
from headtail.kernels.product import Product
from headtail.nn.norm_across import finish_across, moments_across
from headtail.ranks import ALONE, Ranks

Statistics = Literal["running", "graph"]


class GraphNorm(nn.Module):
    """Normalises the columns of x [n, d] with learned α, γ, β, the rows being one graph.

    Args:
        dim: number of columns.
        momentum: weight of the newest batch in the running statistics.
        statistics: what evaluation normalises with: "running" statistics of training batches, or those of the
            rows it is given ("graph"), which are then all nodes. Sampled neighbourhoods spread wider than full
            ones, so the running statistics of training do not quite fit evaluation.

    Attributes:
        ranks: who has the rows, in training and wherever statistics are the graph's; those of all ranks are one graph.
    """

    ranks: Ranks = ALONE
    running_mean: Tensor
    running_spread: Tensor

    def __init__(self, dim: int, momentum: float = 0.1, statistics: Statistics = "running") -> None:
        super().__init__()
        self.momentum, self.statistics = momentum, statistics
        self.alpha = nn.Parameter(torch.ones(dim))
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_spread", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.finish(x, None, relu=False, unit=False)

    def finish(
        self,
        x: Tensor | Product,
        previous: Tensor | None,
        relu: bool,
        unit: bool,
        count: Tensor | None = None,
        plus: Tensor | None = None,
    ) -> Tensor:
        """Returns unit rows(relu(norm of x) + previous + plus), with those steps that are wanted.

        In training, `count` may say how many rows there are; the others are padding. Of several ranks, it may say what
        each row counts [n], as another may have the same.
        """
        parameters = self.alpha, self.gamma, self.beta
        running = Running(self.running_mean, self.running_spread, self.momentum)
        if self.training and isinstance(x, Product) and not self.ranks.several:
            return finish_product(x, previous, plus, *parameters, relu, unit, count, running)[0]
        x = x.value() if isinstance(x, Product) else x
        if plus is not None:
            previous = plus if previous is None else previous + plus
        if not self.training:
            mean, spread = self.running_mean, self.running_spread
            if self.statistics == "graph":
                mean, spread = self._moments(x.float() if x.dtype == torch.bfloat16 else x)
            slope = self.gamma * torch.rsqrt(spread + EPSILON)
            return finish_with(x, previous, slope, self.beta - self.alpha * mean * slope, relu, unit)
        if self.ranks.several:
            y, *found = finish_across(self.ranks, x, previous, *parameters, relu, unit, count)
            running.note(*found)
            return y
        return finish(x, previous, *parameters, relu, unit, count, running)[0]

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if not self.ranks.several:
            return moments(x, self.alpha)
        mean, variance, _ = moments_across(self.ranks, x, x.new_ones(x.shape[0], 1))
        return mean, variance + (1 - self.alpha) ** 2 * mean**2


def batch_norm_relu(norm: nn.BatchNorm1d, x: Product, count: Tensor | None = None, ranks: Ranks = ALONE) -> Tensor:
    """Returns relu(norm(x)); in training, `count` may say how many rows there are, the others being padding.

    BatchNorm is GraphNorm with α = 1, so the same kernel serves both. Rows in training are those of all `ranks`.
    """
    if not norm.training or not (fused(x.inputs[0]) or count is not None or ranks.several):
        return F.relu(norm(x.value()), inplace=True)
    ones, running = torch.ones_like(norm.weight), _running(norm)
    if ranks.several:
        y, *found = finish_across(ranks, x.value(), None, ones, norm.weight, norm.bias, True, False)
        running.note(*found)
        return y
    return finish_product(x, None, None, ones, norm.weight, norm.bias, True, False, count, running)[0]


def batch_norm_relu_dot(
    norm: nn.BatchNorm1d, x: Product, last: nn.Linear, count: Tensor | None = None, ranks: Ranks = ALONE
) -> Tensor:
    """Returns last(relu(norm(x))), which has one column, as float32 [n]; `count` and `ranks` as above."""
    if not norm.training or ranks.several or not fused(x.inputs[0]):
        y = batch_norm_relu(norm, x, count, ranks)
        with torch.autocast(y.device.type, enabled=False):  # one column costs nothing, and logits are compared
            logits: Tensor = last(y.to(last.weight.dtype))
            return logits.squeeze(1)
    ones = torch.ones_like(norm.weight)
    return judge(x, ones, norm.weight, norm.bias, last.weight, last.bias, count, _running(norm))[0]


def _running(norm: nn.BatchNorm1d) -> Running:
    """Returns the running statistics of torch's norm, which counts one more batch, to be updated as it does."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    assert norm.momentum is not None
    norm.num_batches_tracked += 1
    return Running(norm.running_mean, norm.running_var, norm.momentum, unbiased=True)
