"""Triton kernels behind `finish`: one pass over rows forward; two reductions, one pass back.

Rows from `count` on are padding: they count for nothing and come out as zeros.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.finish import Running
from headtail.kernels.launch import MERGED, MERGING_WARPS, MOST_PROGRAMS, power_of_two, tile_rows
from headtail.kernels.moments_triton import EPSILON, column_moments

# Tiles of rows that are on their way, or being worked on, at once.
STAGES = 3
LEAST_LENGTH = tl.constexpr(1e-12)


@triton.jit
def _apply(
    h_ptr, previous_ptr, plus_ptr, count_ptr, moments_ptr, out_ptr, length_ptr, n, d,
    RELU: tl.constexpr, RESIDUAL: tl.constexpr, PLUS: tl.constexpr, UNIT: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    in_row = col < d
    real = row < tl.load(count_ptr)
    stored = (row < n)[:, None] & in_row[None, :]
    inside = stored & real[:, None]
    place = row.to(tl.int64)[:, None] * d + col[None, :]
    slope = tl.load(moments_ptr + 2 * d + col, in_row, 0.0)
    shift = tl.load(moments_ptr + 3 * d + col, in_row, 0.0)
    y = tl.load(h_ptr + place, inside, 0.0).to(tl.float32) * slope[None, :] + shift[None, :]
    if RELU:
        y = tl.maximum(y, 0.0)
    if RESIDUAL:
        y += tl.load(previous_ptr + place, inside, 0.0).to(tl.float32)
    if PLUS:
        y += tl.load(plus_ptr + place, inside, 0.0).to(tl.float32)
    y = tl.where(inside, y, 0.0)
    if UNIT:
        length = tl.maximum(tl.sqrt(tl.sum(y * y, 1)), LEAST_LENGTH)
        y = y * (1.0 / length)[:, None]  # a division takes several times as long as a product
        tl.store(length_ptr + row, length, row < n)
    tl.store(out_ptr + place, y, stored)


@triton.jit
def _before_unit(grad, out, scale):
    """Returns the gradient of rows that `scale` brought to length 1, `out` being what they became."""
    return (grad - out * tl.sum(grad * out, 1)[:, None]) * scale[:, None]


@triton.jit
def _gradient_sums(
    grad_ptr, out_ptr, length_ptr, h_ptr, count_ptr, moments_ptr, alpha_ptr, added_ptr, again_ptr, part_ptr, n, d,
    RELU: tl.constexpr, UNIT: tl.constexpr, ADDED: tl.constexpr, TWICE: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Each program sums grad and grad · (h − αμ) over every PROGRAMS-th tile of rows, grad being that before the ReLU.

    Where ADDED, it also writes the gradient before unit rows were taken, which is that of all that was added up; TWICE,
    if two will change it. Where nothing was added, rows follow from h, and are not read.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    count = tl.minimum(tl.load(count_ptr), n).to(tl.int32)
    last = n if ADDED else count  # of padding, zeros are written
    col = tl.arange(0, COLS)
    in_row = col < d
    slope = tl.load(moments_ptr + 2 * d + col, in_row, 0.0)
    shift = tl.load(moments_ptr + 3 * d + col, in_row, 0.0)
    centre = tl.load(moments_ptr + col, in_row, 0.0) * tl.load(alpha_ptr + col, in_row, 0.0)
    total, along = tl.zeros([ROWS, COLS], tl.float32), tl.zeros([ROWS, COLS], tl.float32)
    tiles = tl.cdiv(last, ROWS)
    for tile in tl.range(program, tiles, programs, num_stages=STAGES):  # from the last rows on, as moments are found
        row = (tiles - 1 - tile) * ROWS + tl.arange(0, ROWS)
        stored = (row < n)[:, None] & in_row[None, :]
        inside = (row < count)[:, None] & in_row[None, :]
        place = row.to(tl.int64)[:, None] * d + col[None, :]
        grad = tl.load(grad_ptr + place, inside, 0.0).to(tl.float32)
        h = tl.load(h_ptr + place, inside, 0.0).to(tl.float32)
        y = h * slope[None, :] + shift[None, :]
        if UNIT:
            scale = 1.0 / tl.load(length_ptr + row, row < count, 1.0)
            if ADDED:
                out = tl.load(out_ptr + place, inside, 0.0).to(tl.float32)
            else:
                out = tl.where(inside, tl.maximum(y, 0.0) if RELU else y, 0.0) * scale[:, None]
            grad = _before_unit(grad, out, scale)
        if ADDED:
            tl.store(added_ptr + place, grad, stored)
        if TWICE:
            tl.store(again_ptr + place, grad, stored)
        if RELU:
            grad = tl.where(y > 0, grad, 0.0)
        total += grad
        along += grad * (h - centre[None, :])
    tl.store(part_ptr + (program * 2) * d + col, tl.sum(total, 0), in_row)
    tl.store(part_ptr + (program * 2 + 1) * d + col, tl.sum(along, 0), in_row)


@triton.jit
def _merge_gradients(
    part_ptr, count_ptr, moments_ptr, alpha_ptr, gamma_ptr, parameters_ptr, per_row_ptr, programs, n, d,
    KINDS: tl.constexpr, PROGRAMS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of α, γ, β and of a bias in h, and what of h and of 1 is added to every row's gradient.

    Sums of more than these two KINDS are written behind them as they are.
    """
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    real = col < d
    part = tl.arange(0, PROGRAMS)
    inside = (part < programs)[:, None] & real[None, :]
    place = part_ptr + part[:, None] * (KINDS * d) + col[None, :]
    grad_beta = tl.sum(tl.load(place, inside, 0.0), 0)
    centred = tl.sum(tl.load(place + d, inside, 0.0), 0)
    total = tl.maximum(tl.minimum(tl.load(count_ptr), n), 1).to(tl.float32)
    mean = tl.load(moments_ptr + col, real, 0.0)
    scale = 1 / tl.sqrt(tl.load(moments_ptr + d + col, real, 1.0) + EPSILON)
    alpha, gamma = tl.load(alpha_ptr + col, real, 0.0), tl.load(gamma_ptr + col, real, 0.0)
    slope = gamma * scale
    grad_spread = -0.5 * gamma * scale * scale * scale * centred
    off = 1 - alpha
    grad_mean = -alpha * slope * grad_beta + 2 * off * off * mean * grad_spread
    per_h = 2 * grad_spread / total
    tl.store(parameters_ptr + col, -mean * slope * grad_beta - 2 * off * mean * mean * grad_spread, real)
    tl.store(parameters_ptr + d + col, centred * scale, real)
    tl.store(parameters_ptr + 2 * d + col, grad_beta, real)
    # The sum of the gradients of all rows of h, which sum up to n · mean.
    tl.store(parameters_ptr + 3 * d + col, slope * grad_beta + grad_mean, real)
    tl.store(per_row_ptr + col, per_h, real)
    tl.store(per_row_ptr + d + col, grad_mean / total - per_h * mean, real)
    for kind in tl.static_range(2, KINDS):
        tl.store(parameters_ptr + (kind + 2) * d + col, tl.sum(tl.load(place + kind * d, inside, 0.0), 0), real)


@triton.jit
def _apply_gradient(
    grad_ptr, length_ptr, h_ptr, count_ptr, moments_ptr, per_row_ptr, grad_h_ptr, n, d,
    RELU: tl.constexpr, UNIT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Writes the gradient of h; where UNIT, `grad` is that of unit rows to which nothing was added."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    in_row = col < d
    stored = (row < n)[:, None] & in_row[None, :]
    inside = stored & (row < tl.load(count_ptr))[:, None]
    place = row.to(tl.int64)[:, None] * d + col[None, :]
    slope = tl.load(moments_ptr + 2 * d + col, in_row, 0.0)
    shift = tl.load(moments_ptr + 3 * d + col, in_row, 0.0)
    grad = tl.load(grad_ptr + place, inside, 0.0).to(tl.float32)
    h = tl.load(h_ptr + place, inside, 0.0).to(tl.float32)
    y = h * slope[None, :] + shift[None, :]
    if UNIT:
        scale = 1.0 / tl.load(length_ptr + row, row < tl.load(count_ptr), 1.0)
        out = tl.where(inside, tl.maximum(y, 0.0) if RELU else y, 0.0) * scale[:, None]
        grad = _before_unit(grad, out, scale)
    if RELU:
        grad = tl.where(y > 0, grad, 0.0)
    per_h = tl.load(per_row_ptr + col, in_row, 0.0)
    constant = tl.load(per_row_ptr + d + col, in_row, 0.0)
    grad_h = grad * slope[None, :] + h * per_h[None, :] + constant[None, :]
    tl.store(grad_h_ptr + place, tl.where(inside, grad_h, 0.0), stored)


def forward(
    h: Tensor,
    previous: Tensor | None,
    count: Tensor,
    alpha: Tensor,
    gamma: Tensor,
    beta: Tensor,
    relu: bool,
    unit: bool,
    running: Running | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the finished rows [n, d], their moments [4, d] (mean, spread, slope, shift) and lengths [n]."""
    moments = column_moments(h, count, alpha, gamma, beta, running)
    out, length = apply(h, previous, None, count, moments, relu, unit)
    return out, moments, length


def apply(
    h: Tensor,
    previous: Tensor | None,
    plus: Tensor | None,
    count: Tensor,
    moments: Tensor,
    relu: bool,
    unit: bool,
) -> tuple[Tensor, Tensor]:
    """Returns unit rows(relu(norm of h) + previous + plus) [n, d] and the lengths that rows had [n]."""
    n, d = h.shape
    rows = tile_rows(d)
    out, length = torch.empty_like(h), torch.empty(n if unit else 0, device=h.device)
    if n:
        _apply[(triton.cdiv(n, rows),)](
            h, h if previous is None else previous, h if plus is None else plus, count, moments, out, length, n, d,
            RELU=relu, RESIDUAL=previous is not None, PLUS=plus is not None, UNIT=unit,
            ROWS=rows, COLS=power_of_two(d),
        )  # fmt: skip
    return out, length


def backward(
    grad: Tensor,
    h: Tensor,
    out: Tensor,
    length: Tensor,
    count: Tensor,
    moments: Tensor,
    alpha: Tensor,
    gamma: Tensor,
    relu: bool,
    unit: bool,
    added: int,
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Returns the gradients of h, of the `added` (0 to 2) that were added to its norm, and of α, γ, β and a bias in h.

    The last are [4, d]. `out` [n, d] is what came of h; it is read where something was added.
    """
    n, d = h.shape
    rows, cols = tile_rows(d), power_of_two(d)
    programs = max(1, min(MOST_PROGRAMS, triton.cdiv(n, rows)))
    part = torch.empty(programs, 2, d, device=h.device)
    of_added = [torch.empty_like(h) for _ in range(added)]
    _gradient_sums[(programs,)](
        grad, out, length, h, count, moments, alpha, *(*of_added, h, h)[:2], part, n, d,
        RELU=relu, UNIT=unit, ADDED=added > 0, TWICE=added > 1, ROWS=rows, COLS=cols, STAGES=STAGES,
    )  # fmt: skip
    parameters, per_row = merge_gradients(part, count, moments, alpha, gamma, n)
    grad_h = torch.empty_like(h)
    if n:
        _apply_gradient[(triton.cdiv(n, rows),)](
            of_added[0] if added else grad, length, h, count, moments, per_row, grad_h, n, d,
            RELU=relu, UNIT=unit and not added, ROWS=rows, COLS=cols,
        )  # fmt: skip
    return grad_h, of_added, parameters


def merge_gradients(
    part: Tensor, count: Tensor, moments: Tensor, alpha: Tensor, gamma: Tensor, n: int
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of α, γ, β and a bias in h, and what of h and of 1 is in every row's [2, d].

    `part` [programs, 2 or more, d] has sums for these; any others are summed up and come after the bias [4 or more, d].
    """
    programs, kinds, d = part.shape
    parameters, per_row = torch.empty(kinds + 2, d, device=part.device), torch.empty(2, d, device=part.device)
    narrow = min(MERGED, power_of_two(d))
    _merge_gradients[(triton.cdiv(d, narrow),)](
        part, count, moments, alpha, gamma, parameters, per_row, programs, n, d, KINDS=kinds,
        PROGRAMS=power_of_two(programs), COLS=narrow, num_warps=MERGING_WARPS,
    )  # fmt: skip
    return parameters, per_row
