"""GraphNorm over a batch's rows, with running statistics, and the steps that follow it in every layer."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

EPSILON = 1e-5
Statistics = Literal["running", "graph"]


def _moments(x: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the mean of every column and mean((x − αμ)²) = v + (1 − α)²μ², v being the variance."""
    mean = x.mean(dim=0)
    # torch.var_mean over rows is several times slower on CPU than these two passes.
    variance = (x - mean).square_().mean(dim=0)
    return mean, variance + (1 - alpha) ** 2 * mean**2


class _GraphNorm(torch.autograd.Function):
    """y = (x − αμ) / sqrt(mean((x − αμ)²) + ε) · γ + β, as one affine map per column.

    Forward is the two moments and one multiply-add over x, backward two reductions and two multiply-adds.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        mean, spread = _moments(x, alpha)
        scale = torch.rsqrt(spread + EPSILON)
        ctx.save_for_backward(x, alpha, gamma, mean, scale)
        ctx.mark_non_differentiable(mean, spread)
        slope = gamma * scale
        return torch.addcmul((beta - alpha * mean * slope), x, slope), mean, spread

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        x, alpha, gamma, mean, scale = ctx.saved_tensors
        n = x.shape[0]
        slope = gamma * scale
        grad_beta = grad.sum(dim=0)
        grad_dot_x = (grad * x).sum(dim=0)
        centred = grad_dot_x - alpha * mean * grad_beta  # Σ grad · (x − αμ)
        grad_gamma = centred * scale
        grad_spread = -0.5 * gamma * scale**3 * centred
        grad_mean = -alpha * slope * grad_beta + 2 * (1 - alpha) ** 2 * mean * grad_spread
        grad_alpha = -mean * slope * grad_beta - 2 * (1 - alpha) * mean**2 * grad_spread
        # d variance / dx = 2 (x − μ) / n and d mean / dx = 1 / n
        per_x = 2 * grad_spread / n
        constant = grad_mean / n - per_x * mean
        grad_x = torch.addcmul(constant, x, per_x)
        grad_x.addcmul_(grad, slope)
        return grad_x, grad_alpha, grad_gamma, grad_beta


class GraphNorm(nn.Module):
    """Normalises the columns of x [n, d] with learned α, γ, β, the rows being one graph.

    Args:
        dim: number of columns.
        momentum: weight of the newest batch in the running statistics.
        statistics: what evaluation normalises with: "running" statistics of training batches, or those of the
            rows it is given ("graph"), which are then all nodes. Sampled neighbourhoods spread wider than full
            ones, so the running statistics of training do not quite fit evaluation.
    """

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
        if not self.training:
            mean, spread = self.running_mean, self.running_spread
            if self.statistics == "graph":
                mean, spread = _moments(x, self.alpha)
            slope = self.gamma * torch.rsqrt(spread + EPSILON)
            return torch.addcmul(self.beta - self.alpha * mean * slope, x, slope)
        y, mean, spread = _GraphNorm.apply(x, self.alpha, self.gamma, self.beta)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_spread.lerp_(spread, self.momentum)
        out: Tensor = y
        return out


class _UnitRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_(min=1e-12)
        y: Tensor = x / length
        ctx.save_for_backward(y, length)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        y, length = ctx.saved_tensors
        along = torch.linalg.vecdot(grad, y).unsqueeze(1)
        grad_x: Tensor = torch.addcmul(grad, y, along, value=-1).div_(length)
        return grad_x


def unit_rows(x: Tensor) -> Tensor:
    """Returns x with every row scaled to length 1."""
    out: Tensor = _UnitRows.apply(x)  # type: ignore[no-untyped-call]
    return out
