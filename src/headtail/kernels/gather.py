"""Sums over gathered rows, and products of gathered rows: what sparse layers and the scorer are made of.

Sums are taken row by row in the order of the entries, without atomics, so the same numbers come out every time.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.launch import fused


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """Returns x[index] as [n, d], without a gradient to x."""
    if fused(x) and not x.requires_grad:
        from headtail.kernels import gather_triton

        return gather_triton.take_rows(x.contiguous(), index, x.device)
    return x.index_select(0, index)


def segment_sum(row_ptr: Tensor, col: Tensor, weight: Tensor | None, x: Tensor, longest: int | None = None) -> Tensor:
    """Returns [rows, d]: Σ_e weight_e · x[col_e] over the entries e of every row i, row_ptr[i] ≤ e < row_ptr[i + 1].

    `longest` is the most entries that a row may have, where that is known.
    """
    if fused(x):
        from headtail.kernels import gather_triton

        return gather_triton.segment_sum(row_ptr, col, weight, x.contiguous(), longest)
    if col.numel() == 0:
        return x.new_zeros(row_ptr.numel() - 1, x.shape[1])
    # embedding_bag is torch's fastest gather-and-sum on CPU and needs no atomics on CUDA.
    weight = None if weight is None else weight.to(x.dtype)
    return F.embedding_bag(col, x, row_ptr, mode="sum", per_sample_weights=weight, include_last_offset=True)


def segment_sum_beside(
    row_ptr: Tensor, col: Tensor, weight: Tensor | None, x: Tensor, own: Tensor, longest: int | None = None
) -> Tensor:
    """Returns [rows, 2d]: what `segment_sum` gives, and x[own] beside it; without a gradient to x."""
    if fused(x):
        from headtail.kernels import gather_triton

        return gather_triton.segment_sum(row_ptr, col, weight, x.contiguous(), longest, own)
    return torch.cat([segment_sum(row_ptr, col, weight, x), x.index_select(0, own)], dim=1)


def segment_sum_of_products(row_ptr: Tensor, place: Tensor, other: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Returns [rows, d]: Σ_e x[p] ⊙ y[other[p]] with p = place[e], over the entries e of every row."""
    if fused(x):
        from headtail.kernels import gather_triton

        return gather_triton.segment_sum_of_products(row_ptr, place, other, x.contiguous(), y.contiguous())
    return segment_sum(row_ptr, place, None, y.index_select(0, other).mul_(x))


def pair_product(u: Tensor, v: Tensor, left: Tensor, right: Tensor, kind: torch.dtype | None = None) -> Tensor:
    """Returns [P, d]: u[left] ⊙ v[right], in the precision of u or another one."""
    if fused(u):
        from headtail.kernels import gather_triton

        return gather_triton.pair_product(u.contiguous(), v.contiguous(), left, right, kind or u.dtype)
    return torch.mul(u.index_select(0, left).to(kind or u.dtype), v.index_select(0, right))
