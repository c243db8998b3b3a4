"""GraphNorm over a batch's rows, with running statistics, and the steps that follow it in every layer."""

from typing import Any

import torch
from torch import Tensor, nn

EPSILON = 1e-5


class _GraphNorm(torch.autograd.Function):
    """y = (x − αμ) / sqrt(mean((x − αμ)²) + ε) · γ + β, as one affine map per column.

    With the batch's mean μ and variance v, mean((x − αμ)²) = v + (1 − α)²μ², so forward is one reduction and
    one multiply-add over x, and backward two reductions and one multiply-add.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
        # Statistics in fp32: under autocast x may be bf16.
        variance, mean = torch.var_mean(x.float(), dim=0, correction=0)
        spread = variance + (1 - alpha) ** 2 * mean**2
        scale = torch.rsqrt(spread + EPSILON)
        ctx.save_for_backward(x, alpha, gamma, mean, scale)
        ctx.mark_non_differentiable(mean, spread)
        slope = gamma * scale
        return torch.addcmul((beta - alpha * mean * slope).to(x.dtype), x, slope.to(x.dtype)), mean, spread

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        x, alpha, gamma, mean, scale = ctx.saved_tensors
        n = x.shape[0]
        slope = gamma * scale
        grad_beta = grad.sum(dim=0, dtype=torch.float32)
        grad_dot_x = (grad * x).sum(dim=0, dtype=torch.float32)
        centred = grad_dot_x - alpha * mean * grad_beta  # Σ grad · (x − αμ)
        grad_gamma = centred * scale
        grad_spread = -0.5 * gamma * scale**3 * centred
        grad_mean = -alpha * slope * grad_beta + 2 * (1 - alpha) ** 2 * mean * grad_spread
        grad_alpha = -mean * slope * grad_beta - 2 * (1 - alpha) * mean**2 * grad_spread
        # d variance / dx = 2 (x − μ) / n and d mean / dx = 1 / n
        per_x = 2 * grad_spread / n
        constant = grad_mean / n - per_x * mean
        grad_x = torch.addcmul(constant.to(x.dtype), x, per_x.to(x.dtype))
        grad_x.addcmul_(grad, slope.to(x.dtype))
        return grad_x, grad_alpha, grad_gamma, grad_beta


class GraphNorm(nn.Module):
    """Normalises the columns of x [n, d] with learned α, γ, β, the rows being one graph.

    Args:
        dim: number of columns.
        momentum: weight of the newest batch in the running statistics used for evaluation.
    """

    running_mean: Tensor
    running_spread: Tensor

    def __init__(self, dim: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.momentum = momentum
        self.alpha = nn.Parameter(torch.ones(dim))
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_spread", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            slope = self.gamma * torch.rsqrt(self.running_spread + EPSILON)
            return torch.addcmul(self.beta - self.alpha * self.running_mean * slope, x, slope)
        y, mean, spread = _GraphNorm.apply(x, self.alpha, self.gamma, self.beta)
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_spread.lerp_(spread, self.momentum)
        out: Tensor = y
        return out


class _UnitRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_(min=1e-12)
        y = x / length
        ctx.save_for_backward(y, length)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        y, length = ctx.saved_tensors
        along = torch.linalg.vecdot(grad, y).unsqueeze(1)
        return torch.addcmul(grad, y, along, value=-1).div_(length)


def unit_rows(x: Tensor) -> Tensor:
    """Returns x with every row scaled to length 1."""
    out: Tensor = _UnitRows.apply(x)
    return out
