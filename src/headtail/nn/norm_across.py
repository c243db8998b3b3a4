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
    shares: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Does what `kernels.finish.finish` does to the rows of all ranks, h [n, d] being this rank's, perhaps none.

    `shares` [n] says what each row counts, where other ranks have the same row and it should count once.

    Returns:
        The finished rows, and without a gradient the mean and the spread [d] of all rows, and how many there are [].
    """
    h = h.float() if h.dtype == torch.bfloat16 else h
    shares = h.new_ones(h.shape[0], 1) if shares is None else shares.to(h.dtype)[:, None]
    y, mean, spread, count = _NormAcross.apply(h, shares, alpha, gamma, beta, ranks)  # type: ignore[no-untyped-call]
    y = y.relu() if relu else y
    y = y if previous is None else y + previous
    return (unit_rows(y) if unit else y), mean, spread, count


def moments_across(ranks: Ranks, h: Tensor, shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the mean and the variance [d] of the rows of all ranks, and how many there are [].

    Each row counts as its share [n, 1] says.

    Every rank centres its rows by their own mean, and these are joined after Chan, Golub and LeVeque: one exchange,
    and no digits are lost where the mean is large.
    """
    rows = shares.sum()
    own = (h * shares).sum(dim=0) / rows.clamp(min=1e-9)
    return joined_moments(ranks, rows, own, (h - own).square_().mul_(shares).sum(dim=0))


def joined_moments(ranks: Ranks, rows: Tensor, mean: Tensor, squares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Joins what each rank found of its rows, perhaps none: how many [], their mean and Σ (h − mean)² [d].

    Returns:
        The mean and the variance [d] of the rows of all ranks, and how many there are [].
    """
    counts, means, spreads = ranks.each(torch.stack([rows.to(mean).expand_as(mean), mean, squares])).unbind(dim=1)
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
        ctx: Any, h: Tensor, shares: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor, ranks: Ranks
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean, variance, count = moments_across(ranks, h, shares)
        spread = variance + (1 - alpha) ** 2 * mean**2
        slope = gamma * torch.rsqrt(spread + EPSILON)
        y = torch.addcmul(beta - alpha * mean * slope, h, slope)
        ctx.save_for_backward(h, shares, alpha, gamma, mean, spread, count)
        ctx.ranks = ranks
        ctx.mark_non_differentiable(mean, spread, count)
        return y, mean, spread, count

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        h, shares, alpha, gamma, mean, spread, count = ctx.saved_tensors
        scale = torch.rsqrt(spread + EPSILON)
        slope = gamma * scale
        own_beta = grad.sum(dim=0)
        own_centred = (grad * h).sum(dim=0) - alpha * mean * own_beta  # Σ grad · (h − αμ)
        of_beta, centred = ctx.ranks.sum(torch.stack([own_beta, own_centred]))
        of_spread, own_spread = (-0.5 * gamma * scale**3 * each for each in (centred, own_centred))
        of_mean = -alpha * slope * of_beta + 2 * (1 - alpha) ** 2 * mean * of_spread
        own_alpha = -mean * slope * own_beta - 2 * (1 - alpha) * mean**2 * own_spread
        per_h = 2 * of_spread / count
        through = torch.addcmul(of_mean / count - per_h * mean, h, per_h).mul_(shares)
        return through.addcmul_(grad, slope), None, own_alpha, own_centred * scale, own_beta, None
