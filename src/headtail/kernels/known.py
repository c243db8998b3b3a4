"""Finds, among several proposals for each of many pairs, the first that is not a known link."""

import torch
from torch import Tensor

from headtail.kernels.launch import engine, has_triton, interpreted


def first_unknown(row_ptr: Tensor, col: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """Returns int64 [n]: which proposal is the first that is neither a known link nor a self-loop; −1 if none is.

    Args:
        row_ptr, col: known links, sorted by column in every row.
        rows, cols: int64 [K, n], K proposals for each pair; either may be [1, n] if it is the same in all.
    """
    if interpreted() or (engine(rows.device) and has_triton()):
        from headtail.kernels import known_triton

        return known_triton.first_unknown(row_ptr, col, rows.contiguous(), cols.contiguous())
    tries = max(rows.shape[0], cols.shape[0])
    rows, cols = rows.expand(tries, -1), cols.expand(tries, -1)
    fine = ~_contained(row_ptr, col, rows, cols) & (rows != cols)
    return torch.where(fine.any(dim=0), fine.int().argmax(dim=0), -1)


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
