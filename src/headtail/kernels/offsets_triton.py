"""Floyd's algorithm for many rows in one Triton kernel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two

# Draws that one program keeps in its registers.
DRAWS = 4096


@triton.jit
def draw_rows(
    uniform_ptr, order_ptr, by_row, by_col, row, degree, real, count, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """Returns distinct offsets [COLS, ROWS] below the degrees, the keys that order them, and which are real.

    Rows are the last dimension: so a thread has all draws of a row, and asks no other about them.
    """
    col = tl.arange(0, COLS)
    inside = real[None, :] & (col < count)[:, None]
    place = row.to(tl.int64)[None, :] * by_row + col[:, None].to(tl.int64) * by_col
    top = (degree[None, :] - count + col[:, None]).to(tl.int32)
    drawn = (tl.load(uniform_ptr + place, inside, 0.0) * (top + 1)).to(tl.int32)
    key = tl.load(order_ptr + place, inside, 3.0)
    chosen = tl.full([COLS, ROWS], -1, tl.int32)
    for i in range(count):
        here = (col == i)[:, None]
        value = tl.sum(tl.where(here, drawn, 0), 0)
        taken = tl.max((chosen == value[None, :]).to(tl.int32), 0) > 0
        last = (degree - count + i).to(tl.int32)
        value = tl.where(degree <= count, i, tl.where(taken, last, value))
        chosen = tl.where(here, value[None, :], chosen)
    valid = (chosen < degree[None, :]) & inside
    return chosen, tl.where(valid, key, 2.0), valid


@triton.jit
def ranks(key, count, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Returns the rank of each key [COLS, ROWS] in its row; of equal ones, the first comes first."""
    col = tl.arange(0, COLS)
    rank = tl.zeros([COLS, ROWS], tl.int32)
    for j in range(count):
        other = tl.sum(tl.where((col == j)[:, None], key, 0.0), 0)[None, :]
        rank += ((other < key) | ((other == key) & (j < col[:, None]))).to(tl.int32)
    return rank


@triton.jit
def _floyd(
    degree_ptr, uniform_ptr, order_ptr, by_row, by_col, out_ptr, n, count, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    degree = tl.load(degree_ptr + row, row < n, 0)
    chosen, key, valid = draw_rows(
        uniform_ptr, order_ptr, by_row, by_col, row, degree, row < n, count, ROWS, COLS
    )  # fmt: skip
    target = out_ptr + row.to(tl.int64)[None, :] * count + ranks(key, count, ROWS, COLS)
    inside = (row < n)[None, :] & (tl.arange(0, COLS) < count)[:, None]
    tl.store(target, tl.where(valid, chosen, -1).to(tl.int64), inside)


def rows_of_draws(count: int) -> int:
    """Returns how many rows of so many draws one program draws: few enough for its registers."""
    return max(32, min(128, DRAWS // power_of_two(count)))


def distinct_offsets(degrees: Tensor, uniform: Tensor, order: Tensor) -> Tensor:
    """Returns what `offsets.floyd` returns."""
    n, count = uniform.shape
    assert uniform.stride() == order.stride()
    out = torch.empty(n, count, dtype=torch.int64, device=degrees.device)
    if n and count:
        rows = rows_of_draws(count)
        _floyd[(triton.cdiv(n, rows),)](
            degrees.contiguous(), uniform, order, *uniform.stride(), out, n, count,
            ROWS=rows, COLS=power_of_two(count), num_warps=rows // 32,
        )  # fmt: skip
    return out
