"""The squared hinge of a padded batch as one differentiable step."""

from typing import Any

import torch
from torch import Tensor


def squared_hinge(logits: Tensor, negative_of: Tensor, positives: Tensor, pairs: Tensor) -> Tensor:
    """Returns the mean of max(0, 1 − (positive − negative))² over negatives, each with the positive it belongs to.

    For tensors that fused kernels work on. In torch, negatives are sorted by their positive first.

    Args:
        logits: float32 [n], of `positives` positives; of negatives, up to `pairs`; and of padding.
        negative_of: int64 [n], where the positive of each negative is.
        positives, pairs: int64 [].
    """
    out: Tensor = _FusedHinge.apply(logits, negative_of, positives, pairs)  # type: ignore[no-untyped-call]
    return out


class _FusedHinge(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, negative_of: Tensor, positives: Tensor, pairs: Tensor) -> Tensor:
        from headtail.kernels import hinge_triton

        value, grad = hinge_triton.squared_hinge(logits.contiguous(), negative_of.contiguous(), positives, pairs)
        ctx.save_for_backward(grad)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (of_logits,) = ctx.saved_tensors
        return of_logits * grad, None, None, None
