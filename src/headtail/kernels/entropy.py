"""The cross-entropy of a padded batch as one differentiable step."""

from typing import Any

import torch
from torch import Tensor


def cross_entropy(logits: Tensor, positives: Tensor, pairs: Tensor) -> Tensor:
    """Returns the mean of softplus(−logit) over positives plus that of softplus(logit) over negatives.

    For tensors that fused kernels work on. In torch, it is a score of kernels that each take longer to start than to
    run.

    Args:
        logits: float32 [n], of `positives` positives; of negatives, up to `pairs`; and of padding.
        positives, pairs: int64 [].
    """
    out: Tensor = _FusedEntropy.apply(logits, positives, pairs)  # type: ignore[no-untyped-call]
    return out


class _FusedEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, positives: Tensor, pairs: Tensor) -> Tensor:
        from headtail.kernels import entropy_triton

        value, grad = entropy_triton.cross_entropy(logits.contiguous(), positives, pairs)
        ctx.save_for_backward(grad)
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (of_logits,) = ctx.saved_tensors
        return of_logits * grad, None, None
