"""Finds, among several proposals for each of many pairs, the first that is not a known link."""

import torch
from torch import Tensor

from headtail.kernels.launch import fused_on


def first_unknown(
    row_ptr: Tensor, col: Tensor, rows: Tensor, cols: Tensor, period: int, count: Tensor, nothing: int
) -> Tensor:
    """Returns int64 [2, n], row and column of the first proposal that is neither a known link nor a self-loop.

    Args:
        row_ptr, col: known links, sorted by column in every row.
        rows, cols: int64 [K, n], K proposals for each pair.
        period, count: pairs repeat with this period; the first `count` [] of it are real.
        nothing: stands at both ends where no proposal is fine, or the pair is not real.
    """
    if fused_on(rows.device):
        from headtail.kernels import known_triton

        return known_triton.first_unknown(row_ptr, col, rows, cols, period, count, nothing)
    fine = ~_contained(row_ptr, col, rows, cols) & (rows != cols)
    fine &= torch.arange(rows.shape[1], device=rows.device) % period < count
    pick = fine.int().argmax(dim=0, keepdim=True)
    ends = torch.cat([rows.gather(0, pick), cols.gather(0, pick)])
    return torch.where(fine.any(dim=0), ends, nothing)


def _contained(row_ptr: Tensor, col: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """Binary search in all rows at once."""
    low, high = row_ptr[rows], row_ptr[rows + 1]
    end = high
    for _ in range(max(1, col.numel()).bit_length()):
        middle = (low + high) // 2
        right = (low < high) & (col[middle.clamp(max=max(0, col.numel() - 1))] < cols) if col.numel() else low < 0
        low = torch.where(right, middle + 1, low)
        high = torch.where(right, high, torch.maximum(low, torch.minimum(high, middle)))
    if not col.numel():
        return torch.zeros_like(rows, dtype=torch.bool)
    return (low < end) & (col[low.clamp(max=col.numel() - 1)] == cols)
