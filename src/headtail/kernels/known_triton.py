"""The Triton kernel behind `known`: a binary search per proposal, until one is found for every pair of a program."""

import torch
import triton
import triton.language as tl
from torch import Tensor

PAIRS = 128


@triton.jit
def _first_unknown(
    row_ptr, col_ptr, rows_ptr, cols_ptr, count_ptr, out_ptr, n, tries, period, nothing, PAIRS: tl.constexpr
):  # fmt: skip
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    inside = pair < n
    open_ = inside & (pair % period < tl.load(count_ptr))
    best_row = tl.zeros([PAIRS], tl.int64) + nothing
    best_col = best_row
    attempt = tl.zeros([], tl.int64)
    while (attempt < tries) & (tl.max(open_.to(tl.int32), 0) > 0):
        proposal = attempt * n + pair
        row = tl.load(rows_ptr + proposal, open_, 0)
        col = tl.load(cols_ptr + proposal, open_, 0)
        low = tl.load(row_ptr + row, open_, 0)
        end = tl.load(row_ptr + row + 1, open_, 0)
        high = end
        while tl.max(high - low, 0) > 0:
            middle = (low + high) // 2
            right = tl.load(col_ptr + middle, open_ & (low < high), 0) < col
            go = low < high
            low = tl.where(go & right, middle + 1, low)
            high = tl.where(go & (right == 0), middle, high)
        known = tl.load(col_ptr + low, open_ & (low < end), -1) == col
        fine = open_ & (known == 0) & (row != col)
        best_row = tl.where(fine, row, best_row)
        best_col = tl.where(fine, col, best_col)
        open_ = open_ & (fine == 0)
        attempt += 1
    tl.store(out_ptr + pair, best_row, inside)
    tl.store(out_ptr + n + pair, best_col, inside)


def first_unknown(
    row_ptr: Tensor, col: Tensor, rows: Tensor, cols: Tensor, period: int, count: Tensor, nothing: int
) -> Tensor:
    """Returns what `known.first_unknown` returns."""
    tries, n = rows.shape
    out = torch.empty(2, n, dtype=torch.int64, device=rows.device)
    if n:
        _first_unknown[(triton.cdiv(n, PAIRS),)](
            row_ptr, col, rows.contiguous(), cols.contiguous(), count, out, n, tries, period, nothing, PAIRS=PAIRS
        )
    return out
