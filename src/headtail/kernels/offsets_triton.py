"""Floyd's algorithm for many rows in one Triton kernel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two

ROWS_AT_ONCE = 64


@triton.jit
def draw_rows(uniform_ptr, order_ptr, row, degree, real, count, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Returns distinct offsets [ROWS, COLS] below the degrees, the keys that order them, and which are real."""
    col = tl.arange(0, COLS)
    inside = real[:, None] & (col < count)[None, :]
    place = row.to(tl.int64)[:, None] * count + col[None, :]
    uniform = tl.load(uniform_ptr + place, inside, 0.0)
    key = tl.load(order_ptr + place, inside, 3.0)
    chosen = tl.full([ROWS, COLS], -1, tl.int64)
    for i in range(count):
        top = degree - count + i
        here = col[None, :] == i
        drawn = (tl.sum(tl.where(here, uniform, 0.0), 1) * (top + 1)).to(tl.int64)
        taken = tl.max(((chosen == drawn[:, None]) & (col[None, :] < i)).to(tl.int32), 1) > 0
        value = tl.where(degree <= count, i, tl.where(taken, top, drawn))
        chosen = tl.where(here, value[:, None], chosen)
    valid = (chosen < degree[:, None]) & inside
    return chosen, tl.where(valid, key, 2.0), valid


@triton.jit
def ranks(key, count, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Returns the rank of each key in its row; of equal ones, the first comes first."""
    col = tl.arange(0, COLS)
    rank = tl.zeros([ROWS, COLS], tl.int32)
    for j in range(count):
        other = tl.sum(tl.where(col[None, :] == j, key, 0.0), 1)[:, None]
        rank += ((other < key) | ((other == key) & (j < col[None, :]))).to(tl.int32)
    return rank


@triton.jit
def _floyd(degree_ptr, uniform_ptr, order_ptr, out_ptr, n, count, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    degree = tl.load(degree_ptr + row, row < n, 0)
    chosen, key, valid = draw_rows(uniform_ptr, order_ptr, row, degree, row < n, count, ROWS, COLS)
    target = out_ptr + row.to(tl.int64)[:, None] * count + ranks(key, count, ROWS, COLS)
    inside = (row < n)[:, None] & (tl.arange(0, COLS) < count)[None, :]
    tl.store(target, tl.where(valid, chosen, -1), inside)


def distinct_offsets(degrees: Tensor, uniform: Tensor, order: Tensor) -> Tensor:
    """Returns what `offsets.floyd` returns."""
    n, count = uniform.shape
    out = torch.empty(n, count, dtype=torch.int64, device=degrees.device)
    if n and count:
        _floyd[(triton.cdiv(n, ROWS_AT_ONCE),)](
            degrees.contiguous(), uniform, order, out, n, count, ROWS=ROWS_AT_ONCE, COLS=power_of_two(count)
        )
    return out
