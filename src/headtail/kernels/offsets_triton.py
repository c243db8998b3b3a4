"""Floyd's algorithm for many rows in one Triton kernel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two
from headtail.kernels.offsets import FEW_DRAWS

# Draws that one program keeps in its registers.
DRAWS = 4096


@triton.jit
def draw_rows(
    uniform_ptr, order_ptr, by_row, by_col, row, degree, real, count,
    ROWS: tl.constexpr, COLS: tl.constexpr, AXIS: tl.constexpr,
):  # fmt: skip
    """Returns distinct offsets below the degrees, the keys that order them, and which are real.

    AXIS is the dimension of the tile along which the draws of a row lie. Where that is the first, a thread has all of
    them and asks no other; where the last, threads beside each other write what lies beside each other.
    """
    col = tl.expand_dims(tl.arange(0, COLS), 1 - AXIS)
    inside = tl.expand_dims(real, AXIS) & (col < count)
    place = tl.expand_dims(row.to(tl.int64), AXIS) * by_row + col.to(tl.int64) * by_col
    top = (tl.expand_dims(degree, AXIS) - count + col).to(tl.int32)
    drawn = (tl.load(uniform_ptr + place, inside, 0.0) * (top + 1)).to(tl.int32)
    key = tl.load(order_ptr + place, inside, 3.0)
    chosen = tl.zeros_like(drawn) - 1
    for i in range(count):
        value = tl.sum(tl.where(col == i, drawn, 0), AXIS)
        taken = tl.max((chosen == tl.expand_dims(value, AXIS)).to(tl.int32), AXIS) > 0
        last = (degree - count + i).to(tl.int32)
        value = tl.where(degree <= count, i, tl.where(taken, last, value))
        chosen = tl.where(col == i, tl.expand_dims(value, AXIS), chosen)
    valid = (chosen < tl.expand_dims(degree, AXIS)) & inside
    return chosen, tl.where(valid, key, 2.0), valid


@triton.jit
def ranks(key, count, COLS: tl.constexpr, AXIS: tl.constexpr):
    """Returns the rank of each key in its row, which lies along AXIS; of equal ones, the first comes first."""
    col = tl.expand_dims(tl.arange(0, COLS), 1 - AXIS)
    rank = tl.zeros_like(key).to(tl.int32)
    for j in range(count):
        other = tl.expand_dims(tl.sum(tl.where(col == j, key, 0.0), AXIS), AXIS)
        rank += ((other < key) | ((other == key) & (j < col))).to(tl.int32)
    return rank


@triton.jit
def _floyd(
    degree_ptr, uniform_ptr, order_ptr, by_row, by_col, out_ptr, n, count,
    ROWS: tl.constexpr, COLS: tl.constexpr, AXIS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    degree = tl.load(degree_ptr + row, row < n, 0)
    chosen, key, valid = draw_rows(
        uniform_ptr, order_ptr, by_row, by_col, row, degree, row < n, count, ROWS, COLS, AXIS
    )  # fmt: skip
    target = out_ptr + tl.expand_dims(row.to(tl.int64), AXIS) * count + ranks(key, count, COLS, AXIS)
    inside = tl.expand_dims(row < n, AXIS) & (tl.expand_dims(tl.arange(0, COLS), 1 - AXIS) < count)
    tl.store(target, tl.where(valid, chosen, -1).to(tl.int64), inside)


def tile_of_draws(count: int) -> dict[str, int]:
    """Returns how rows of so many draws are cut into programs."""
    if count <= FEW_DRAWS:
        return {"ROWS": 64, "COLS": power_of_two(count), "AXIS": 1, "num_warps": 4}
    rows = max(32, min(128, DRAWS // power_of_two(count)))
    return {"ROWS": rows, "COLS": power_of_two(count), "AXIS": 0, "num_warps": rows // 32}


def distinct_offsets(degrees: Tensor, uniform: Tensor, order: Tensor) -> Tensor:
    """Returns what `offsets.floyd` returns."""
    n, count = uniform.shape
    assert uniform.stride() == order.stride()
    out = torch.empty(n, count, dtype=torch.int64, device=degrees.device)
    if n and count:
        tile = tile_of_draws(count)
        programs = triton.cdiv(n, tile["ROWS"])
        _floyd[(programs,)](degrees.contiguous(), uniform, order, *uniform.stride(), out, n, count, **tile)
    return out
