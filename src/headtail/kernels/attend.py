"""Attention over sparse rows: a softmax of logits within every row, the sum it weighs, and the gradients of both.

The logit of entry (i, j) is z_ij = leaky relu(x_j · direction + from_target_i). Neither logits nor weights of entries
are kept for the gradients: they are found again from a few numbers of each row. Rows are summed in the order of their
entries, without atomics, so the same numbers come out every time; entries that no row owns are never looked at.

`x` [S, d] may be in bf16; `direction` [d], `from_target` [T] and all statistics are in fp32 (fp64 beside an fp64 x).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.gather import segment_sum
from headtail.kernels.launch import fused

SLOPE = 0.2


class Attended(NamedTuple):
    """What `attend` returns: the sums [T, d], and each row's largest logit and Σ exp(logit − largest), [T, 2]."""

    out: Tensor
    softmax: Tensor


class TargetGradients(NamedTuple):
    """What `target_gradients` returns.

    Attributes:
        direction, from_target: the gradients, [d] and [T].
        facts: [T, 4], from_target, the largest logit, 1 / Σ exp(logit − largest) and the gradient along the sum;
            `source_gradient` finds weights again from these.
    """

    direction: Tensor
    from_target: Tensor
    facts: Tensor


def attend(row_ptr: Tensor, col: Tensor, x: Tensor, direction: Tensor, from_target: Tensor) -> Attended:
    """Returns Σ_j p_ij x_j over the entries (i, j) of every row i, p_i = softmax(z_i); 0 for a row without entries."""
    if fused(x):
        from headtail.kernels import attend_triton

        return Attended(*attend_triton.attend(row_ptr, col, x.contiguous(), direction, from_target))
    row, col = _owned(row_ptr, col)
    wide = x.to(direction.dtype)
    logit = F.leaky_relu((wide @ direction)[col] + from_target[row], SLOPE)
    top = torch.full_like(from_target, -torch.inf).scatter_reduce(0, row, logit, reduce="amax")
    exponent = (logit - top[row]).exp()
    total = _row_sums(row_ptr, exponent)
    out = segment_sum(row_ptr, col, exponent / total[row], wide)
    return Attended(out.to(x.dtype), torch.stack([top, total], dim=1))


def target_gradients(
    row_ptr: Tensor, col: Tensor, x: Tensor, direction: Tensor, from_target: Tensor, softmax: Tensor, grad: Tensor
) -> TargetGradients:
    """Returns what follows from the gradient [T, d] of the sums by looking at every target's sources."""
    if fused(x):
        from headtail.kernels import attend_triton

        found = attend_triton.target_gradients(row_ptr, col, x.contiguous(), direction, from_target, softmax, grad)
        return TargetGradients(*found)
    row, col = _owned(row_ptr, col)
    wide, top, share = x.to(direction.dtype), softmax[:, 0], softmax[:, 1].reciprocal()
    raw = (wide @ direction)[col] + from_target[row]
    p = _weights(raw, top[row], share[row])
    of_p = _dots(grad.to(wide.dtype), row, wide, col)
    along = _row_sums(row_ptr, p * of_p)
    of_raw = _through_relu(raw, p * (of_p - along[row]))
    of_direction = segment_sum(row_ptr, col, of_raw, wide).sum(dim=0)
    facts = torch.stack([from_target, top, share, along], dim=1)
    return TargetGradients(of_direction, _row_sums(row_ptr, of_raw), facts)


def source_gradient(row_ptr: Tensor, col: Tensor, x: Tensor, direction: Tensor, facts: Tensor, grad: Tensor) -> Tensor:
    """Returns the gradient [S, d] of x; rows are the sources here, and `col` [entries] their targets."""
    if fused(x):
        from headtail.kernels import attend_triton

        return attend_triton.source_gradient(row_ptr, col, x.contiguous(), direction, facts, grad)
    row, col = _owned(row_ptr, col)
    wide, wide_grad = x.to(direction.dtype), grad.to(direction.dtype)
    from_target, top, share, along = facts.unbind(1)
    raw = (wide @ direction)[row] + from_target[col]
    p = _weights(raw, top[col], share[col])
    of_raw = _through_relu(raw, p * (_dots(wide, row, wide_grad, col) - along[col]))
    through_sum = segment_sum(row_ptr, col, p, wide_grad)
    return torch.addcmul(through_sum, _row_sums(row_ptr, of_raw)[:, None], direction).to(x.dtype)


def _owned(row_ptr: Tensor, col: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the row and the column of every entry that a row owns."""
    col = col[: int(row_ptr[-1])]
    return torch.repeat_interleave(row_ptr.diff(), output_size=col.numel()), col


def _row_sums(row_ptr: Tensor, values: Tensor) -> Tensor:
    """Returns the sum of each row's values [entries]."""
    place = torch.arange(values.numel(), device=values.device)
    return segment_sum(row_ptr, place, None, values[:, None]).squeeze(1)


def _weights(raw: Tensor, top: Tensor, share: Tensor) -> Tensor:
    """Returns the softmax [entries] from what goes into the leaky relu, and two numbers of each entry's target."""
    return (F.leaky_relu(raw, SLOPE) - top).exp() * share


def _through_relu(raw: Tensor, grad: Tensor) -> Tensor:
    """Returns the gradient of what goes into the leaky relu."""
    return torch.where(raw > 0, grad, SLOPE * grad)


def _dots(u: Tensor, left: Tensor, v: Tensor, right: Tensor) -> Tensor:
    """Returns u[left] · v[right] for every entry."""
    return u.index_select(0, left).mul_(v.index_select(0, right)).sum(dim=1)
