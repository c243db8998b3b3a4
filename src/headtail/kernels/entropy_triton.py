"""Triton kernel behind `entropy`: the loss of a padded batch and its gradient in one pass over the logits."""

import torch
import triton
import triton.language as tl
from torch import Tensor

LOGITS = 1024


@triton.jit
def _entropy(logit_ptr, positives_ptr, pairs_ptr, part_ptr, grad_ptr, n, LOGITS: tl.constexpr):
    """Program i writes the gradients of its logits and the sum of their losses."""
    place = tl.program_id(0) * LOGITS + tl.arange(0, LOGITS)
    positives, pairs = tl.load(positives_ptr), tl.load(pairs_ptr)
    positive, real = place < positives, (place < pairs) & (place < n)
    of_positive = 1.0 / tl.maximum(positives, 1).to(tl.float32)
    of_negative = 1.0 / tl.maximum(pairs - positives, 1).to(tl.float32)
    share = tl.where(positive, of_positive, of_negative)
    sign = tl.where(positive, -1.0, 1.0)
    wrong = sign * tl.load(logit_ptr + place, real, 0.0)
    tail = tl.exp(-tl.abs(wrong))  # never overflows
    loss = tl.where(real, share * (tl.maximum(wrong, 0.0) + tl.log(1 + tail)), 0.0)
    chance = tl.where(wrong > 0, 1.0, tail) / (1 + tail)
    tl.store(grad_ptr + place, tl.where(real, share * sign * chance, 0.0), place < n)
    tl.store(part_ptr + tl.program_id(0), tl.sum(loss, 0))


def cross_entropy(logits: Tensor, positives: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the loss [] and the gradients of the logits [n]."""
    n = logits.numel()
    programs = triton.cdiv(n, LOGITS)
    part, grad = torch.empty(programs, device=logits.device), torch.empty_like(logits)
    if n:
        _entropy[(programs,)](logits, positives, pairs, part, grad, n, LOGITS=LOGITS)
    return part.sum(), grad
