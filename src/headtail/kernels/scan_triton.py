"""Running sums over many blocks, for Triton kernels: a first kernel sums every block, a second one what lies before."""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Rows whose lengths are summed by one program, and sums that a program reads at a time.
ROWS, STEP = 1024, 1024


@triton.jit
def sum_before(sums_ptr, block, STEP: tl.constexpr):
    """Returns the sum of the first `block` int64 sums."""
    total = tl.zeros([STEP], tl.int64)
    for first in range(0, block, STEP):
        each = first + tl.arange(0, STEP)
        total += tl.load(sums_ptr + each, each < block, 0)
    return tl.sum(total, 0)


@triton.jit
def row_of(start_ptr, rows, entry, real):
    """Returns the row of each entry, found by halving: the last row that starts at or before it and is not empty."""
    low = tl.zeros_like(entry)
    high = tl.where(real, rows, 0).to(entry.dtype)
    while tl.max(high - low, 0) > 0:
        middle = (low + high) // 2
        go = low < high
        right = tl.load(start_ptr + 1 + middle, go, 0) <= entry
        low = tl.where(go & right, middle + 1, low)
        high = tl.where(go & (right == 0), middle, high)
    return low


@triton.jit
def _starts(
    length_ptr, sums_ptr, start_ptr, total_ptr, n, blocks, capacity,
    KINDS: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    row = block * ROWS + tl.arange(0, ROWS)
    total = sum_before(sums_ptr, blocks, STEP)
    length = tl.load(length_ptr + row, row < n, 0).to(tl.int64)
    end = sum_before(sums_ptr, block, STEP) + tl.cumsum(length, 0)
    tl.store(start_ptr + 1 + row, tl.where(total <= capacity, end, 0), row < n)
    if block == 0:
        tl.store(start_ptr, 0)
        for kind in range(KINDS):
            tl.store(total_ptr + kind, sum_before(sums_ptr + kind * blocks, blocks, STEP))


def blocks_of(rows: int) -> int:
    """Returns how many blocks of `ROWS` rows there are, one at least."""
    return max(1, -(-rows // ROWS))


def starts(lengths: Tensor, sums: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
    """Returns where rows start, int64 [n + 1], and totals int64 [K]; all rows are empty where they do not fit.

    Args:
        lengths: int32 [n].
        sums: int64 [K, blocks_of(n)], block by block: of the lengths, and of what else is to be summed up.
    """
    n, (kinds, blocks) = lengths.numel(), sums.shape
    start = torch.empty(n + 1, dtype=torch.int64, device=lengths.device)
    total = torch.empty(kinds, dtype=torch.int64, device=lengths.device)
    _starts[(blocks,)](lengths, sums, start, total, n, blocks, capacity, KINDS=kinds, ROWS=ROWS, STEP=STEP)
    return start, total
