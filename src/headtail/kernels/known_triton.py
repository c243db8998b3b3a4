"""The Triton kernel behind `known`: a binary search per proposal, until one is found for every pair of a program."""

import torch
import triton
import triton.language as tl
from torch import Tensor

PAIRS = 128


@triton.jit
def _first_unknown(
    row_ptr, col_ptr, rows_ptr, cols_ptr, out_ptr, n, tries, row_stride, col_stride, PAIRS: tl.constexpr
):  # fmt: skip
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    real = pair < n
    found = tl.where(real, -1, 0).to(tl.int64)
    attempt = 0
    while (attempt < tries) & (tl.min(found, 0) < 0):
        open_ = found < 0
        row = tl.load(rows_ptr + attempt * row_stride + pair, open_, 0)
        col = tl.load(cols_ptr + attempt * col_stride + pair, open_, 0)
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
        found = tl.where(open_ & (known == 0) & (row != col), attempt, found)
        attempt += 1
    tl.store(out_ptr + pair, found, real)


def first_unknown(row_ptr: Tensor, col: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """Returns what `known.first_unknown` returns."""
    tries, n = max(rows.shape[0], cols.shape[0]), rows.shape[1]
    out = torch.empty(n, dtype=torch.int64, device=rows.device)
    strides = [n if each.shape[0] > 1 else 0 for each in (rows, cols)]
    if n:
        _first_unknown[(triton.cdiv(n, PAIRS),)](row_ptr, col, rows, cols, out, n, tries, *strides, PAIRS=PAIRS)
    return out
