"""The scorer's end as one differentiable step: product, norm, ReLU, and one logit per row."""

from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.finish import Running
from headtail.kernels.launch import fused
from headtail.kernels.layer import Factors, factors_of, finish_product, multiplied, to_compute, weight_gradient
from headtail.kernels.product import Product


def judge(
    product: Product,
    alpha: Tensor,
    gamma: Tensor,
    beta: Tensor,
    weight: Tensor,
    bias: Tensor,
    count: Tensor | None = None,
    running: Running | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns relu(norm of the product) · weight + bias as float32 [n], and the product's moments, as `finish` does.

    What the ReLU gives is as large as all pairs; the fused step neither writes nor keeps it.

    Args:
        weight, bias: [1, d] and [1], of the last layer.
    """
    if not fused(product.inputs[0]):
        y, mean, spread = finish_product(product, None, None, alpha, gamma, beta, True, False, count, running)
        with torch.autocast(y.device.type, enabled=False):
            return F.linear(y.to(weight.dtype), weight, bias).squeeze(1), mean, spread
    x, also, count = to_compute(product, count)
    found: tuple[Tensor, Tensor, Tensor] = _FusedJudge.apply(  # type: ignore[no-untyped-call]
        x, also, count, alpha, gamma, beta, weight, bias, running, factors_of(product, x.dtype), *chain(*product.parts)
    )
    return found


class _FusedJudge(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor | None,
        count: Tensor,
        alpha: Tensor,
        gamma: Tensor,
        beta: Tensor,
        last: Tensor,
        last_bias: Tensor,
        running: Running | None,
        factors: Factors,
        *parts: Tensor,
    ) -> tuple[Tensor, ...]:
        from headtail.kernels import judge_triton
        from headtail.kernels.moments_triton import column_moments

        h = multiplied(x, y, factors)
        found = column_moments(h, count, alpha, gamma, beta, running)
        logits = judge_triton.judge(h, count, found, last, last_bias)
        ctx.save_for_backward(x, y, h, count, found, alpha, gamma, last)
        ctx.factors = factors
        mean, spread = found[0], found[1]
        ctx.mark_non_differentiable(mean, spread)
        ctx.set_materialize_grads(False)
        return logits, mean, spread

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        from headtail.kernels import judge_triton

        x, y, h, count, found, alpha, gamma, last = ctx.saved_tensors
        grad_h, (of_alpha, of_gamma, of_beta, of_bias, of_last, of_last_bias) = judge_triton.backward(
            grad.contiguous(), h, count, found, alpha, gamma, last
        )
        factors: Factors = ctx.factors
        of_other = None if y is None else weight_gradient(grad_h, y)
        of_weight = weight_gradient(grad_h, x)
        of_x = grad_h @ factors.weight if ctx.needs_input_grad[0] else None
        of_y = grad_h @ factors.other if factors.other is not None and ctx.needs_input_grad[1] else None
        of_norm = of_alpha, of_gamma, of_beta
        of_parts = factors.of_parts(of_weight, of_other, of_bias)
        return of_x, of_y, None, *of_norm, of_last[None], of_last_bias[:1], None, None, *of_parts
