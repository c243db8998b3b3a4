"""What follows every product with weights: GraphNorm, ReLU, residual, unit rows, as one differentiable step."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headtail.kernels.launch import fused
from headtail.kernels.unit import unit_backward, unit_rows

EPSILON = 1e-5


@dataclass(frozen=True)
class Running:
    """Statistics of columns over many batches, which evaluation normalises with; every batch updates them in place.

    Attributes:
        mean, spread: float32 [d].
        momentum: what the newest batch weighs.
        unbiased: the spread is a variance over n − 1 rows, as torch's BatchNorm has it.
    """

    mean: Tensor
    spread: Tensor
    momentum: float
    unbiased: bool = False

    @torch.no_grad()
    def note(self, mean: Tensor, spread: Tensor, rows: Tensor | int) -> None:
        """Takes in the moments [d] of a batch of so many rows."""
        if self.unbiased:
            seen = torch.as_tensor(rows, dtype=torch.float32, device=spread.device)
            spread = spread * (seen / (seen - 1).clamp(min=1))
        self.mean.lerp_(mean, self.momentum)
        self.spread.lerp_(spread, self.momentum)


def moments(x: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the mean of every column and mean((x − αμ)²) = v + (1 − α)²μ², v being the variance."""
    mean = x.mean(dim=0)
    # torch.var_mean over rows is several times slower on CPU than these two passes.
    variance = (x - mean).square_().mean(dim=0)
    return mean, variance + (1 - alpha) ** 2 * mean**2


def finish(
    h: Tensor,
    previous: Tensor | None,
    alpha: Tensor,
    gamma: Tensor,
    beta: Tensor,
    relu: bool,
    unit: bool,
    count: Tensor | None = None,
    running: Running | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns unit rows(relu(γ·(h − αμ) / √(spread + ε) + β) + previous), with those steps that are wanted.

    Args:
        h, previous: [n, d].
        alpha, gamma, beta: float32 [d].
        relu, unit: whether to take the positive part, and to scale rows to length 1.
        count: int64 [], how many rows there are; the rest of h is padding, which comes out as zeros. None: all.
        running: statistics that the moments of h go into.

    Returns:
        The finished rows, and the mean and the spread [d] of h, without a gradient.
    """
    found: tuple[Tensor, Tensor, Tensor]
    if fused(h):
        if count is None:
            count = torch.full((), h.shape[0], dtype=torch.int64, device=h.device)
        found = _FusedFinish.apply(h, previous, count, alpha, gamma, beta, relu, unit, running)  # type: ignore[no-untyped-call]
        return found
    h = h.float() if h.dtype == torch.bfloat16 else h
    if count is not None:
        rows = int(count)
        kept = None if previous is None else previous[:rows]
        out, mean, spread = finish(h[:rows], kept, alpha, gamma, beta, relu, unit, None, running)
        return torch.cat([out, out.new_zeros(h.shape[0] - rows, h.shape[1])]), mean, spread
    found = _Finish.apply(h, previous, alpha, gamma, beta, relu, unit)  # type: ignore[no-untyped-call]
    if running is not None:
        running.note(*found[1:], h.shape[0])
    return found


def finish_with(h: Tensor, previous: Tensor | None, slope: Tensor, shift: Tensor, relu: bool, unit: bool) -> Tensor:
    """Returns unit rows(relu(h · slope + shift) + previous): `finish` with moments that are known, in evaluation.

    Args:
        h, previous: [n, d].
        slope, shift: float32 [d].
    """
    if fused(h) and not torch.is_grad_enabled():
        from headtail.kernels import finish_triton

        previous = None if previous is None else previous.to(h.dtype).contiguous()
        count = torch.full((), h.shape[0], dtype=torch.int64, device=h.device)
        found = torch.stack([shift, shift, slope, shift])  # of which mean and spread are not read
        return finish_triton.apply(h.contiguous(), previous, None, count, found, relu, unit)[0]
    y = torch.addcmul(shift, h.float() if h.dtype == torch.bfloat16 else h, slope)
    y = y.relu() if relu else y
    y = y if previous is None else y + previous
    return unit_rows(y) if unit else y


class _Finish(torch.autograd.Function):
    """The reference: two moments and one pass forward, two reductions and one pass back."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        previous: Tensor | None,
        alpha: Tensor,
        gamma: Tensor,
        beta: Tensor,
        relu: bool,
        unit: bool,
    ) -> tuple[Tensor, ...]:
        mean, spread = moments(h, alpha)
        slope = gamma * torch.rsqrt(spread + EPSILON)
        y = torch.addcmul(beta - alpha * mean * slope, h, slope)
        if relu:
            y = y.relu_()
        if previous is not None:
            y = y.add_(previous)
        length = torch.linalg.vector_norm(y, dim=1, keepdim=True).clamp_(min=1e-12) if unit else mean
        out = y.div_(length) if unit else y
        ctx.save_for_backward(h, out, length, alpha, gamma, beta, mean, spread)
        ctx.relu, ctx.unit, ctx.residual = relu, unit, previous is not None
        ctx.mark_non_differentiable(mean, spread)
        return out, mean, spread

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        h, out, length, alpha, gamma, beta, mean, spread = ctx.saved_tensors
        n = h.shape[0]
        scale = torch.rsqrt(spread + EPSILON)
        slope = gamma * scale
        if ctx.unit:
            grad = unit_backward(grad.contiguous(), out, length)
        grad_previous = grad if ctx.residual else None
        if ctx.relu:
            # On a CPU, half the time of a product with y > 0.
            y = torch.addcmul(beta - alpha * mean * slope, h, slope)
            grad = torch.ops.aten.threshold_backward(grad, y, 0)
        grad_beta = grad.sum(dim=0)
        centred = (grad * h).sum(dim=0) - alpha * mean * grad_beta  # Σ grad · (h − αμ)
        grad_spread = -0.5 * gamma * scale**3 * centred
        grad_mean = -alpha * slope * grad_beta + 2 * (1 - alpha) ** 2 * mean * grad_spread
        grad_alpha = -mean * slope * grad_beta - 2 * (1 - alpha) * mean**2 * grad_spread
        # d variance / dh = 2 (h − μ) / n and d mean / dh = 1 / n
        per_h = 2 * grad_spread / n
        grad_h = torch.addcmul(grad_mean / n - per_h * mean, h, per_h).addcmul_(grad, slope)
        return grad_h, grad_previous, grad_alpha, centred * scale, grad_beta, None, None


class _FusedFinish(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        previous: Tensor | None,
        count: Tensor,
        alpha: Tensor,
        gamma: Tensor,
        beta: Tensor,
        relu: bool,
        unit: bool,
        running: Running | None,
    ) -> tuple[Tensor, ...]:
        from headtail.kernels import finish_triton

        h, previous = h.contiguous(), None if previous is None else previous.to(h.dtype).contiguous()
        out, found, length = finish_triton.forward(h, previous, count, alpha, gamma, beta, relu, unit, running)
        ctx.save_for_backward(h, out, length, count, found, alpha, gamma)
        ctx.relu, ctx.unit, ctx.residual = relu, unit, previous is not None
        mean, spread = found[0], found[1]
        ctx.mark_non_differentiable(mean, spread)
        ctx.set_materialize_grads(False)
        return out, mean, spread

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        from headtail.kernels import finish_triton

        h, out, length, count, found, alpha, gamma = ctx.saved_tensors
        grad_h, of_added, of_parameters = finish_triton.backward(
            grad.contiguous(), h, out, length, count, found, alpha, gamma, ctx.relu, ctx.unit, int(ctx.residual)
        )
        return grad_h, of_added[0] if ctx.residual else None, None, *of_parameters[:3], None, None, None
