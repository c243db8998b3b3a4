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


def _finish(
    h: Tensor, previous: Tensor | None, alpha: Tensor, gamma: Tensor, beta: Tensor, relu: bool, unit: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the finished rows, the mean and spread of h, and the length [n, 1] that rows were divided by."""
    mean, spread = _moments(h, alpha)
    slope = gamma * torch.rsqrt(spread + EPSILON)
    y = torch.addcmul(beta - alpha * mean * slope, h, slope)
    if relu:
        y = y.relu_()
    if previous is not None:
        y = y.add_(previous)
    length = torch.linalg.vector_norm(y, dim=1, keepdim=True).clamp_(min=1e-12) if unit else mean
    return y.div_(length) if unit else y, mean, spread, length


def _finish_backward(
    grad: Tensor,
    h: Tensor,
    out: Tensor,
    length: Tensor,
    alpha: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    spread: Tensor,
    relu: bool,
    unit: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns the gradients of h, of the residual input, and of α, γ, β."""
    n = h.shape[0]
    scale = torch.rsqrt(spread + EPSILON)
    slope = gamma * scale
    if unit:
        along = (grad * out).sum(dim=1, keepdim=True)
        grad = torch.addcmul(grad, out, along, value=-1).div_(length)
    grad_previous = grad
    if relu:
        grad = grad * (torch.addcmul(beta - alpha * mean * slope, h, slope) > 0)
    grad_beta = grad.sum(dim=0)
    grad_dot_h = (grad * h).sum(dim=0)
    centred = grad_dot_h - alpha * mean * grad_beta  # Σ grad · (h − αμ)
    grad_gamma = centred * scale
    grad_spread = -0.5 * gamma * scale**3 * centred
    grad_mean = -alpha * slope * grad_beta + 2 * (1 - alpha) ** 2 * mean * grad_spread
    grad_alpha = -mean * slope * grad_beta - 2 * (1 - alpha) * mean**2 * grad_spread
    # d variance / dh = 2 (h − μ) / n and d mean / dh = 1 / n
    per_h = 2 * grad_spread / n
    grad_h = torch.addcmul(grad_mean / n - per_h * mean, h, per_h).addcmul_(grad, slope)
    return grad_h, grad_previous, grad_alpha, grad_gamma, grad_beta


class _Finish(torch.autograd.Function):
    """unit rows(relu(GraphNorm(h)) + previous): two moments and one pass forward, two reductions and one pass back."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, previous: Tensor | None, alpha: Tensor, gamma: Tensor, beta: Tensor, relu: bool, unit: bool
    ) -> tuple[Tensor, ...]:
        out, mean, spread, length = _finish(h, previous, alpha, gamma, beta, relu, unit)
        ctx.save_for_backward(h, out, length, alpha, gamma, beta, mean, spread)
        ctx.relu, ctx.unit, ctx.residual = relu, unit, previous is not None
        ctx.mark_non_differentiable(mean, spread)
        return out, mean, spread

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        h, out, length, alpha, gamma, beta, mean, spread = ctx.saved_tensors
        grad_h, grad_previous, *of_parameters = _finish_backward(
            grad.contiguous(), h, out, length, alpha, gamma, beta, mean, spread, ctx.relu, ctx.unit
        )
        return grad_h, grad_previous if ctx.residual else None, *of_parameters, None, None


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
        return self.finish(x, None, relu=False, unit=False)

    def finish(self, x: Tensor, previous: Tensor | None, relu: bool, unit: bool) -> Tensor:
        """Returns unit rows(relu(norm of x) + previous), with those steps that are wanted."""
        if not self.training:
            mean, spread = self.running_mean, self.running_spread
            if self.statistics == "graph":
                mean, spread = _moments(x, self.alpha)
            slope = self.gamma * torch.rsqrt(spread + EPSILON)
            y = torch.addcmul(self.beta - self.alpha * mean * slope, x, slope)
            y = y.relu() if relu else y
            y = y if previous is None else y + previous
            return unit_rows(y) if unit else y
        y, mean, spread = _Finish.apply(  # type: ignore[no-untyped-call]
            x, previous, self.alpha, self.gamma, self.beta, relu, unit
        )
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_spread.lerp_(spread, self.momentum)
        out: Tensor = y
        return out


def _unit(x: Tensor) -> tuple[Tensor, Tensor]:
    length = torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_(min=1e-12)
    return x / length, length


def _unit_backward(grad: Tensor, y: Tensor, length: Tensor) -> Tensor:
    along = (grad * y).sum(dim=1, keepdim=True)
    return torch.addcmul(grad, y, along, value=-1).div_(length)


class _UnitRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y: Tensor
        y, length = _unit(x)
        ctx.save_for_backward(y, length)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad_x: Tensor = _unit_backward(grad.contiguous(), *ctx.saved_tensors)
        return grad_x


def unit_rows(x: Tensor) -> Tensor:
    """Returns x with every row scaled to length 1."""
    out: Tensor = _UnitRows.apply(x)  # type: ignore[no-untyped-call]
    return out
