"""The scorer's end as one differentiable step: product, norm, ReLU, and one logit per row."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.finish import Running
from headtail.kernels.launch import fused
from headtail.kernels.layer import finish_product, multiplied, to_compute, weight_gradient
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
    other = None if also is None else product.weights[1]
    found: tuple[Tensor, Tensor, Tensor] = _FusedJudge.apply(  # type: ignore[no-untyped-call]
        x, product.weights[0], also, other, product.bias, count, alpha, gamma, beta, weight, bias, running
    )
    return found


class _FusedJudge(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        y: Tensor | None,
        other: Tensor | None,
        bias: Tensor,
        count: Tensor,
        alpha: Tensor,
        gamma: Tensor,
        beta: Tensor,
        last: Tensor,
        last_bias: Tensor,
        running: Running | None,
    ) -> tuple[Tensor, ...]:
        from headtail.kernels import judge_triton
        from headtail.kernels.moments_triton import column_moments

        weight, other = weight.to(x.dtype), None if other is None else other.to(x.dtype)
        h = multiplied(x, weight, y, other, bias)
        found = column_moments(h, count, alpha, gamma, beta, running)
        logits = judge_triton.judge(h, count, found, last, last_bias)
        ctx.save_for_backward(x, weight, y, other, h, count, found, alpha, gamma, last)
        mean, spread = found[0], found[1]
        ctx.mark_non_differentiable(mean, spread)
        ctx.set_materialize_grads(False)
        return logits, mean, spread

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *unused: Tensor) -> tuple[Tensor | None, ...]:
        from headtail.kernels import judge_triton

        x, weight, y, other, h, count, found, alpha, gamma, last = ctx.saved_tensors
        grad_h, (of_alpha, of_gamma, of_beta, of_bias, of_last, of_last_bias) = judge_triton.backward(
            grad.contiguous(), h, count, found, alpha, gamma, last
        )
        of_other = None if y is None else weight_gradient(grad_h, y)
        of_weight = weight_gradient(grad_h, x)
        of_x = grad_h @ weight if ctx.needs_input_grad[0] else None
        of_y = grad_h @ other if y is not None and ctx.needs_input_grad[2] else None
        of_norm = of_alpha, of_gamma, of_beta
        return of_x, of_weight, of_y, of_other, of_bias, None, *of_norm, of_last[None], of_last_bias[:1], None
