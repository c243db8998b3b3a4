"""Triton kernels behind `hinge`: the loss of a padded batch and the gradients of negatives; then those of positives.

What negatives add to the gradient of their positive is summed up in whole numbers, in units of 1 / UNITS: then it does
not matter which comes first, and the same numbers come out every time.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

LOGITS = 1024
# A negative may be this far above its positive; beyond, its gradient grows no more. Thousands of these can be summed.
UNITS, FARTHEST = tl.constexpr(2.0**32), tl.constexpr(2.0**20)


@triton.jit
def _of_negatives(
    logit_ptr, of_ptr, positives_ptr, pairs_ptr, part_ptr, grad_ptr, units_ptr, n, LOGITS: tl.constexpr
):  # fmt: skip
    """Program i writes the gradients of its negatives and the sum of their losses."""
    place = tl.program_id(0) * LOGITS + tl.arange(0, LOGITS)
    positives, pairs = tl.load(positives_ptr), tl.load(pairs_ptr)
    negative = (place >= positives) & (place < pairs) & (place < n)
    share = 1.0 / tl.maximum(pairs - positives, 1).to(tl.float32)
    positive = tl.load(of_ptr + place, negative, 0)
    above = 1 - (tl.load(logit_ptr + positive, negative, 1.0) - tl.load(logit_ptr + place, negative, 0.0))
    short = tl.where(above <= 0, 0.0, above)  # what is not a number stays so
    tl.store(grad_ptr + place, 2 * share * short, place < n)
    units = tl.where(short < FARTHEST, short, FARTHEST) * UNITS
    tl.atomic_add(units_ptr + positive, units.to(tl.int64), negative & (short > 0))
    tl.store(part_ptr + tl.program_id(0), tl.sum(share * short * short, 0))


@triton.jit
def _of_positives(units_ptr, positives_ptr, pairs_ptr, grad_ptr, n, LOGITS: tl.constexpr):
    place = tl.program_id(0) * LOGITS + tl.arange(0, LOGITS)
    positives, pairs = tl.load(positives_ptr), tl.load(pairs_ptr)
    positive = (place < positives) & (place < n)
    share = 1.0 / tl.maximum(pairs - positives, 1).to(tl.float32)
    short = tl.load(units_ptr + place, positive, 0).to(tl.float64) / UNITS
    tl.store(grad_ptr + place, -2 * share * short.to(tl.float32), positive)


def squared_hinge(logits: Tensor, negative_of: Tensor, positives: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the loss [] and the gradients of the logits [n]."""
    n = logits.numel()
    programs = triton.cdiv(n, LOGITS)
    part, grad = torch.empty(programs, device=logits.device), torch.empty_like(logits)
    if n:
        units = torch.zeros(n, dtype=torch.int64, device=logits.device)
        counts = positives, pairs
        _of_negatives[(programs,)](logits, negative_of, *counts, part, grad, units, n, LOGITS=LOGITS)
        _of_positives[(programs,)](units, *counts, grad, n, LOGITS=LOGITS)
    return part.sum(), grad
