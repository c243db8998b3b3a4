"""Triton kernels behind `product`: matrix products over the rows that there are, with column moments on the way."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import interpreted, power_of_two

# Rows of a tile, inner columns at a time, warps, stages of loading; and programs, each of which does several tiles.
ROWS, STEP, WARPS, STAGES, PROGRAMS = 128, 64, 8, 3, 132
# WIDE: Triton's interpreter multiplies the bits of bf16 numbers, so there they are made fp32 first.


@triton.jit
def _add_product(
    total, x_ptr, w_ptr, row, real, col, out_stride, in_stride,
    K: tl.constexpr, D: tl.constexpr, STEP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Returns total [ROWS, COLS] + x[row] · W, element (i, o) of W lying at i · in_stride + o · out_stride."""
    for start in range(0, K, STEP):
        inner = start + tl.arange(0, STEP)
        x = tl.load(x_ptr + row[:, None] * K + inner[None, :], real[:, None] & (inner < K)[None, :], 0.0)
        place = inner[:, None] * in_stride + col[None, :] * out_stride
        w = tl.load(w_ptr + place, (inner < K)[:, None] & (col < D)[None, :], 0.0)
        if WIDE:
            x, w = x.to(tl.float32), w.to(tl.float32)
        total = tl.dot(x, w, total)
    return total


@triton.jit
def _product(
    x_ptr, w_ptr, y_ptr, v_ptr, bias_ptr, count_ptr, out_ptr, part_ptr, n,
    K: tl.constexpr, L: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Writes x · Wᵀ (+ y · Vᵀ) + b for every PROGRAMS-th tile of rows, and the moments of these rows' columns."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    count = tl.minimum(tl.load(count_ptr), n).to(tl.int32)
    col = tl.arange(0, COLS)
    in_row = col < D
    bias = tl.load(bias_ptr + col, in_row, 0.0)
    mean, squares = tl.zeros([COLS], tl.float32), tl.zeros([COLS], tl.float32)
    seen = 0.0
    for first in range(program * ROWS, count, programs * ROWS):
        row = (first + tl.arange(0, ROWS)).to(tl.int64)
        real = row < count
        total = tl.zeros([ROWS, COLS], tl.float32)
        total = _add_product(total, x_ptr, w_ptr, row, real, col, K, 1, K, D, STEP, WIDE)
        if L > 0:
            total = _add_product(total, y_ptr, v_ptr, row, real, col, L, 1, L, D, STEP, WIDE)
        inside = real[:, None] & in_row[None, :]
        rounded = (total + bias[None, :]).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + row[:, None] * D + col[None, :], rounded, inside)
        # Moments of what later kernels read, merged by Chan's formula.
        h = tl.where(inside, rounded.to(tl.float32), 0.0)
        here = tl.minimum(count - first, ROWS).to(tl.float32)
        own_mean = tl.sum(h, 0) / here
        off = tl.where(inside, h - own_mean[None, :], 0.0)
        delta = own_mean - mean
        both = seen + here
        squares += tl.sum(off * off, 0) + delta * delta * (seen * here / both)
        mean += delta * (here / both)
        seen = both
    tl.store(part_ptr + (program * 3) * D + col, tl.zeros([COLS], tl.float32) + seen, in_row)
    tl.store(part_ptr + (program * 3 + 1) * D + col, mean, in_row)
    tl.store(part_ptr + (program * 3 + 2) * D + col, squares, in_row)


@triton.jit
def _times(
    x_ptr, w_ptr, plus_ptr, count_ptr, out_ptr, n,
    K: tl.constexpr, D: tl.constexpr, PLUS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    count = tl.minimum(tl.load(count_ptr), n)
    first = tl.program_id(0).to(tl.int64) * ROWS
    if first < count:
        row, col = first + tl.arange(0, ROWS), tl.arange(0, COLS)
        real = row < count
        total = tl.zeros([ROWS, COLS], tl.float32)
        total = _add_product(total, x_ptr, w_ptr, row, real, col, 1, D, K, D, STEP, WIDE)
        inside = real[:, None] & (col < D)[None, :]
        place = row[:, None] * D + col[None, :]
        if PLUS:
            total += tl.load(plus_ptr + place, inside, 0.0).to(tl.float32)
        tl.store(out_ptr + place, total, inside)


def product(
    x: Tensor, weight: Tensor, y: Tensor | None, other: Tensor | None, bias: Tensor, count: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns x·Wᵀ (+ y·Vᵀ) + b as [n, d], of which `count` rows are written, and moments [programs, 3, d] of parts."""
    (n, k), d = x.shape, weight.shape[0]
    programs = max(1, min(PROGRAMS, triton.cdiv(n, ROWS)))
    out = torch.empty(n, d, dtype=x.dtype, device=x.device)
    part = torch.empty(programs, 3, d, device=x.device)
    _product[(programs,)](
        x, weight, x if y is None else y, weight if other is None else other, bias, count, out, part, n,
        K=k, L=0 if y is None else y.shape[1], D=d, ROWS=ROWS, COLS=_columns(d), STEP=STEP, WIDE=interpreted(),
        num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return out, part


def times(x: Tensor, weight: Tensor, plus: Tensor | None, count: Tensor) -> Tensor:
    """Returns x [n, d] · weight [d, k] + plus, of which `count` rows are written."""
    (n, d), k = x.shape, weight.shape[1]
    out = torch.empty(n, k, dtype=x.dtype, device=x.device)
    if n:
        _times[(triton.cdiv(n, ROWS),)](
            x, weight, x if plus is None else plus, count, out, n,
            K=d, D=k, PLUS=plus is not None, ROWS=ROWS, COLS=_columns(k), STEP=STEP, WIDE=interpreted(),
            num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
    return out


def _columns(d: int) -> int:
    """Returns the columns of a tile; tensor cores work on 16 at least."""
    return max(16, power_of_two(d))
