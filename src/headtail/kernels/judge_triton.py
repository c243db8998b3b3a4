"""Triton kernels behind `judge`: a logit per row forward; sums over rows, then one pass over them back."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.finish_triton import STAGES, merge_gradients
from headtail.kernels.launch import MOST_PROGRAMS, power_of_two, tile_rows


@triton.jit
def _judge(h_ptr, count_ptr, moments_ptr, last_ptr, bias_ptr, out_ptr, n, d, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    in_row = col < d
    real = row < tl.minimum(tl.load(count_ptr), n)
    slope = tl.load(moments_ptr + 2 * d + col, in_row, 0.0)
    shift = tl.load(moments_ptr + 3 * d + col, in_row, 0.0)
    last = tl.load(last_ptr + col, in_row, 0.0)
    place = row.to(tl.int64)[:, None] * d + col[None, :]
    h = tl.load(h_ptr + place, real[:, None] & in_row[None, :], 0.0).to(tl.float32)
    y = tl.maximum(h * slope[None, :] + shift[None, :], 0.0)
    tl.store(out_ptr + row, tl.where(real, tl.sum(y * last[None, :], 1) + tl.load(bias_ptr), 0.0), row < n)


@triton.jit
def _sums(
    grad_ptr, h_ptr, count_ptr, moments_ptr, alpha_ptr, last_ptr, part_ptr, n, d,
    ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Each program sums, over some rows, the gradient before the ReLU, that times (h − αμ), grad · relu, and grad."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    count = tl.minimum(tl.load(count_ptr), n).to(tl.int32)
    col = tl.arange(0, COLS)
    in_row = col < d
    slope = tl.load(moments_ptr + 2 * d + col, in_row, 0.0)
    shift = tl.load(moments_ptr + 3 * d + col, in_row, 0.0)
    last = tl.load(last_ptr + col, in_row, 0.0)
    centre = tl.load(moments_ptr + col, in_row, 0.0) * tl.load(alpha_ptr + col, in_row, 0.0)
    total, along = tl.zeros([ROWS, COLS], tl.float32), tl.zeros([ROWS, COLS], tl.float32)
    of_last, of_bias = tl.zeros([ROWS, COLS], tl.float32), tl.zeros([ROWS], tl.float32)
    tiles = tl.cdiv(count, ROWS)
    for tile in tl.range(program, tiles, programs, num_stages=STAGES):  # from the last rows on, as moments are found
        row = (tiles - 1 - tile) * ROWS + tl.arange(0, ROWS)
        real = row < count
        place = row.to(tl.int64)[:, None] * d + col[None, :]
        of_row = tl.load(grad_ptr + row, real, 0.0)
        of_bias += of_row
        grad = of_row[:, None]
        h = tl.load(h_ptr + place, real[:, None] & in_row[None, :], 0.0).to(tl.float32)
        y = h * slope[None, :] + shift[None, :]
        inner = tl.where(y > 0, grad * last[None, :], 0.0)
        total += inner
        along += inner * (h - centre[None, :])
        of_last += grad * tl.maximum(y, 0.0)
    part_ptr += program * 4 * d + col
    tl.store(part_ptr, tl.sum(total, 0), in_row)
    tl.store(part_ptr + d, tl.sum(along, 0), in_row)
    tl.store(part_ptr + 2 * d, tl.sum(of_last, 0), in_row)
    tl.store(part_ptr + 3 * d, tl.zeros([COLS], tl.float32) + tl.sum(of_bias, 0), in_row)


@triton.jit
def _gradient(
    grad_ptr, h_ptr, count_ptr, moments_ptr, per_row_ptr, last_ptr, grad_h_ptr, n, d,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    in_row = col < d
    stored = (row < n)[:, None] & in_row[None, :]
    real = row < tl.minimum(tl.load(count_ptr), n)
    inside = stored & real[:, None]
    place = row.to(tl.int64)[:, None] * d + col[None, :]
    slope = tl.load(moments_ptr + 2 * d + col, in_row, 0.0)
    shift = tl.load(moments_ptr + 3 * d + col, in_row, 0.0)
    last = tl.load(last_ptr + col, in_row, 0.0)
    grad = tl.load(grad_ptr + row, real, 0.0)[:, None]
    h = tl.load(h_ptr + place, inside, 0.0).to(tl.float32)
    inner = tl.where(h * slope[None, :] + shift[None, :] > 0, grad * last[None, :], 0.0)
    per_h = tl.load(per_row_ptr + col, in_row, 0.0)
    constant = tl.load(per_row_ptr + d + col, in_row, 0.0)
    grad_h = inner * slope[None, :] + h * per_h[None, :] + constant[None, :]
    tl.store(grad_h_ptr + place, tl.where(inside, grad_h, 0.0), stored)


def judge(h: Tensor, count: Tensor, moments: Tensor, last: Tensor, bias: Tensor) -> Tensor:
    """Returns float32 [n]: relu(norm of h [n, d]) · last [1, d] + bias [1]; 0 for padding."""
    n, d = h.shape
    out = torch.empty(n, device=h.device)
    if n:
        rows = tile_rows(d)
        _judge[(triton.cdiv(n, rows),)](h, count, moments, last, bias, out, n, d, ROWS=rows, COLS=power_of_two(d))
    return out


def backward(
    grad: Tensor, h: Tensor, count: Tensor, moments: Tensor, alpha: Tensor, gamma: Tensor, last: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of h; and of α, γ, β, a bias in h, `last`, and the last bias (d times over) as [6, d].

    They follow from that of the logits [n].
    """
    n, d = h.shape
    rows, cols = tile_rows(d), power_of_two(d)
    programs = max(1, min(MOST_PROGRAMS, triton.cdiv(n, rows)))
    part = torch.empty(programs, 4, d, device=h.device)
    _sums[(programs,)](grad, h, count, moments, alpha, last, part, n, d, ROWS=rows, COLS=cols, STAGES=STAGES)
    parameters, per_row = merge_gradients(part, count, moments, alpha, gamma, n)
    grad_h = torch.empty_like(h)
    if n:
        _gradient[(triton.cdiv(n, rows),)](
            grad, h, count, moments, per_row, last, grad_h, n, d, ROWS=rows, COLS=cols
        )  # fmt: skip
    return grad_h, parameters
