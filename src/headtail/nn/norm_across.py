"""GraphNorm whose rows are spread over ranks: statistics of all rows, and gradients through them, are exact."""

from typing import Any

import torch
from torch import Tensor

from headtail.kernels.finish import EPSILON
from headtail.kernels.unit import unit_rows
from headtail.ranks import Ranks


def finish_across(
    ranks: Ranks,
    h: Tensor,
    previous: Tensor | None,
    alpha: Tensor,
    gamma: Tensor,
    beta: Tensor,
    relu: bool,
    unit: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Does what `kernels.finish.finish` does to the rows of all ranks, h [n, d] being this rank's, perhaps none.

    Returns:
        The finished rows, and without a gradient the mean and the spread [d] of all rows, and how many there are [].
    """
    h = h.float() if h.dtype == torch.bfloat16 else h
    y, mean, spread, count = _NormAcross.apply(h, alpha, gamma, beta, ranks)  # type: ignore[no-untyped-call]
    y = y.relu() if relu else y
    y = y if previous is None else y + previous
    return (unit_rows(y) if unit else y), mean, spread, count


def moments_across(ranks: Ranks, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the mean and the variance [d] of the rows of all ranks, and how many there are [].

    Every rank centres its rows by their own mean, and these are joined after Chan, Golub and LeVeque: one exchange,
    and no digits are lost where the mean is large.
    """
    rows = h.shape[0]
    own = h.sum(dim=0) / max(1, rows)
    squares = (h - own).square_().sum(dim=0)
    counts, means, spreads = ranks.each(torch.stack([torch.full_like(own, rows), own, squares])).unbind(dim=1)
    total = counts.sum(dim=0).clamp(min=1)
    mean = (counts * means).sum(dim=0) / total
    variance = (spreads + counts * (means - mean).square()).sum(dim=0) / total
    return mean, variance, total[0]


class _NormAcross(torch.autograd.Function):
    """γ·(h − αμ) / √(spread + ε) + β; see `kernels.finish` for the derivation.

    The loss is the sum of what the ranks compute. So a gradient that goes through the statistics is summed over ranks,
    while those of α, γ and β are this rank's part and are summed with all other parameters'.
    """

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor, ranks: Ranks
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean, variance, count = moments_across(ranks, h)
        spread = variance + (1 - alpha) ** 2 * mean**2
        slope = gamma * torch.rsqrt(spread + EPSILON)
        y = torch.addcmul(beta - alpha * mean * slope, h, slope)
        ctx.save_for_backward(h, alpha, gamma, mean, spread, count)
        ctx.ranks = ranks
        ctx.mark_non_differentiable(mean, spread, count)
        return y, mean, spread, count

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        h, alpha, gamma, mean, spread, count = ctx.saved_tensors
        scale = torch.rsqrt(spread + EPSILON)
        slope = gamma * scale
        own_beta = grad.sum(dim=0)
        own_centred = (grad * h).sum(dim=0) - alpha * mean * own_beta  # Σ grad · (h − αμ)
        of_beta, centred = ctx.ranks.sum(torch.stack([own_beta, own_centred]))
        of_spread, own_spread = (-0.5 * gamma * scale**3 * each for each in (centred, own_centred))
        of_mean = -alpha * slope * of_beta + 2 * (1 - alpha) ** 2 * mean * of_spread
        own_alpha = -mean * slope * own_beta - 2 * (1 - alpha) * mean**2 * own_spread
        per_h = 2 * of_spread / count
        grad_h = torch.addcmul(of_mean / count - per_h * mean, h, per_h).addcmul_(grad, slope)
        return grad_h, own_alpha, own_centred * scale, own_beta, None
