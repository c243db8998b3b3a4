"""A whole layer as one differentiable step: products with weights, GraphNorm, ReLU, residual, unit rows."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from headtail.kernels.finish import Running, finish
from headtail.kernels.launch import fused
from headtail.kernels.operands import operand
from headtail.kernels.product import Product


def finish_product(
    product: Product,
    previous: Tensor | None,
    plus: Tensor | None,
    alpha: Tensor,
    gamma: Tensor,
    beta: Tensor,
    relu: bool,
    unit: bool,
    count: Tensor | None = None,
    running: Running | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns unit rows(relu(norm of the product) + previous + plus), its mean and spread, as `finish` does."""
    inputs = product.inputs
    if not fused(inputs[0]) or (previous is not None and previous is not inputs[-1]):
        added = plus if previous is None else previous if plus is None else previous + plus
        return finish(product.value(), added, alpha, gamma, beta, relu, unit, count, running)
    x, y, count = to_compute(product, count)
    found: tuple[Tensor, Tensor, Tensor] = _FusedLayer.apply(  # type: ignore[no-untyped-call]
        x, y, plus, count, alpha, gamma, beta, relu, unit, previous is not None, running,
        factors_of(product, x.dtype), *chain(*product.parts),
    )  # fmt: skip
    return found


def to_compute(product: Product, count: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor]:
    """Returns the inputs of a product in the precision that it is computed in, and how many rows they have."""
    inputs = product.inputs
    kind = inputs[0].dtype
    if torch.is_autocast_enabled(inputs[0].device.type):
        kind = torch.get_autocast_dtype(inputs[0].device.type)
    x, y = inputs[0].to(kind).contiguous(), None if len(inputs) == 1 else inputs[1].to(kind).contiguous()
    if count is None:
        count = torch.full((), x.shape[0], dtype=torch.int64, device=x.device)
    return x, y, count


@dataclass(frozen=True)
class Factors:
    """What inputs are multiplied by, and the bias, in the precision of the inputs; of how many parts each is the sum.

    The parts go to autograd beside it, in the same order: each gets the gradient of the sum.
    """

    weight: Tensor
    other: Tensor | None
    bias: Tensor
    parts: tuple[int, ...]

    def of_parts(self, of_weight: Tensor, of_other: Tensor | None, of_bias: Tensor) -> list[Tensor]:
        """Returns the gradient of every part."""
        grads = [of_weight, of_bias] if of_other is None else [of_weight, of_other, of_bias]
        return [grad for grad, count in zip(grads, self.parts, strict=True) for _ in range(count)]


def factors_of(product: Product, kind: torch.dtype) -> Factors:
    weight, *other, bias = (operand(parts, kind) for parts in product.parts)
    return Factors(weight, other[0] if other else None, bias, tuple(len(parts) for parts in product.parts))


class _FusedLayer(torch.autograd.Function):
    """Keeps h and the output for the backward pass; the bias gets its gradient without another pass over rows."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor | None,
        plus: Tensor | None,
        count: Tensor,
        alpha: Tensor,
        gamma: Tensor,
        beta: Tensor,
        relu: bool,
        unit: bool,
        residual: bool,
        running: Running | None,
        factors: Factors,
        *parts: Tensor,
    ) -> tuple[Tensor, ...]:
        from headtail.kernels import finish_triton
        from headtail.kernels.moments_triton import column_moments

        h = multiplied(x, y, factors)
        found = column_moments(h, count, alpha, gamma, beta, running)
        previous = None if not residual else x if y is None else y
        plus = None if plus is None else plus.to(x.dtype).contiguous()
        out, length = finish_triton.apply(h, previous, plus, count, found, relu, unit)
        ctx.save_for_backward(x, y, h, out, length, count, found, alpha, gamma)
        ctx.relu, ctx.unit, ctx.residual, ctx.plus, ctx.factors = relu, unit, residual, plus is not None, factors
        mean, spread = found[0], found[1]
        ctx.mark_non_differentiable(mean, spread)
        ctx.set_materialize_grads(False)  # no zeros for what has no gradient
        return out, mean, spread

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        from headtail.kernels import finish_triton

        x, y, h, out, length, count, found, alpha, gamma = ctx.saved_tensors
        grad_h, of_added, (of_alpha, of_gamma, of_beta, of_bias) = finish_triton.backward(
            grad.contiguous(), h, out, length, count, found, alpha, gamma, ctx.relu, ctx.unit, ctx.residual + ctx.plus
        )
        of_plus = of_added[0] if ctx.plus else None
        through = of_added[-1] if ctx.residual else None
        factors: Factors = ctx.factors
        # Those of inputs last: they are what is read next.
        of_weight = weight_gradient(grad_h, x)
        of_other = None if y is None else weight_gradient(grad_h, y)
        of_x = _times(grad_h, factors.weight, through if y is None else None) if ctx.needs_input_grad[0] else None
        of_y = None
        if factors.other is not None and ctx.needs_input_grad[1]:
            of_y = _times(grad_h, factors.other, through)
        of_norm = of_alpha, of_gamma, of_beta
        nothing = (None,) * 5  # what is no tensor
        return of_x, of_y, of_plus, None, *of_norm, *nothing, *factors.of_parts(of_weight, of_other, of_bias)


def multiplied(x: Tensor, y: Tensor | None, factors: Factors) -> Tensor:
    """Returns x·Wᵀ (+ y·Vᵀ) + b by torch: a kernel that found the moments on the way took twice as long."""
    h = torch.addmm(factors.bias, x, factors.weight.T)
    return h if y is None or factors.other is None else h.addmm_(y, factors.other.T)


def _times(grad: Tensor, weight: Tensor, plus: Tensor | None) -> Tensor:
    """Returns grad · weight + plus, in the place of `plus`: torch would copy it first."""
    return grad @ weight if plus is None else plus.addmm_(grad, weight)


def weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """Returns gradᵀ [d, n] · x [n, k] in float32; rows of `grad` that are padding must be zero."""
    if grad.is_cuda and grad.dtype == torch.bfloat16:
        return torch.mm(grad.T, x, out_dtype=torch.float32)
    return (grad.T @ x).float()
