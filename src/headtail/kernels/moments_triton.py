"""Triton kernels that find the moments of columns, which norms are made of.

Rows from `count` on are padding: they count for nothing.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.finish import Running
from headtail.kernels.launch import MERGED, MERGING_WARPS, MOST_PROGRAMS, power_of_two, tile_rows

EPSILON = tl.constexpr(1e-5)


@triton.jit
def _moments(h_ptr, count_ptr, part_ptr, n, d, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Each program writes the count, mean and squared deviations of every PROGRAMS-th tile of rows.

    Sums are kept for each place of a tile and added up over its rows at the end: doing that for every tile takes
    several times as long as reading it. They are sums of differences to some row, so that a large mean costs no digits.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    count = tl.minimum(tl.load(count_ptr), n).to(tl.int32)
    col = tl.arange(0, COLS)
    in_row = col < d
    tiles = tl.cdiv(count, ROWS)
    # From the last rows on, which were written last and may still be in the cache; the pass that follows goes forwards.
    row = (tiles - 1 - program) * ROWS + tl.arange(0, ROWS)
    some = tl.load(h_ptr + tl.maximum(tiles - 1 - program, 0).to(tl.int64) * ROWS * d + col, in_row & (count > 0), 0.0)
    some = some.to(tl.float32)
    total, squares = tl.zeros([ROWS, COLS], tl.float32), tl.zeros([ROWS, COLS], tl.float32)
    ahead = tl.load(
        h_ptr + row.to(tl.int64)[:, None] * d + col[None, :],
        ((row >= 0) & (row < count))[:, None] & in_row[None, :], 0.0,
    )  # fmt: skip
    seen = 0
    for _tile in range(program, tiles, programs):
        h, real = ahead.to(tl.float32), row < count
        # The next tile is on its way while this one is summed.
        row -= programs * ROWS
        ahead = tl.load(
            h_ptr + row.to(tl.int64)[:, None] * d + col[None, :], (row >= 0)[:, None] & in_row[None, :], 0.0
        )
        off = tl.where(real[:, None] & in_row[None, :], h - some[None, :], 0.0)
        total += off
        squares += off * off
        seen += tl.sum(real.to(tl.int32), 0)
    rows = tl.maximum(seen, 1).to(tl.float32)
    off_mean = tl.sum(total, 0) / rows
    tl.store(part_ptr + (program * 3) * d + col, tl.zeros([COLS], tl.float32) + seen, in_row)
    tl.store(part_ptr + (program * 3 + 1) * d + col, some + off_mean, in_row)
    tl.store(part_ptr + (program * 3 + 2) * d + col, tl.sum(squares, 0) - rows * off_mean * off_mean, in_row)


@triton.jit
def _merge_moments(
    part_ptr, count_ptr, alpha_ptr, gamma_ptr, beta_ptr, out_ptr, mean_ptr, spread_ptr, momentum, programs, n, d,
    RUNNING: tl.constexpr, UNBIASED: tl.constexpr, PROGRAMS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Writes mean, spread, slope and shift of COLS columns, and takes the first two into running statistics."""
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    part = tl.arange(0, PROGRAMS)
    inside = (part < programs)[:, None] & (col < d)[None, :]
    place = part_ptr + part[:, None] * (3 * d) + col[None, :]
    seen = tl.load(place, inside, 0.0)
    means = tl.load(place + d, inside, 0.0)
    squares = tl.load(place + 2 * d, inside, 0.0)
    total = tl.maximum(tl.minimum(tl.load(count_ptr), n), 1).to(tl.float32)
    mean = tl.sum(seen * means, 0) / total
    off = means - mean[None, :]
    variance = tl.sum(squares + seen * off * off, 0) / total
    alpha = tl.load(alpha_ptr + col, col < d, 0.0)
    spread = variance + (1 - alpha) * (1 - alpha) * mean * mean
    slope = tl.load(gamma_ptr + col, col < d, 0.0) / tl.sqrt(spread + EPSILON)
    shift = tl.load(beta_ptr + col, col < d, 0.0) - alpha * mean * slope
    tl.store(out_ptr + col, mean, col < d)
    tl.store(out_ptr + d + col, spread, col < d)
    tl.store(out_ptr + 2 * d + col, slope, col < d)
    tl.store(out_ptr + 3 * d + col, shift, col < d)
    if RUNNING:
        if UNBIASED:
            spread *= total / tl.maximum(total - 1, 1.0)
        before, wide = tl.load(mean_ptr + col, col < d, 0.0), tl.load(spread_ptr + col, col < d, 0.0)
        tl.store(mean_ptr + col, before + momentum * (mean - before), col < d)
        tl.store(spread_ptr + col, wide + momentum * (spread - wide), col < d)


def column_moments(
    h: Tensor, count: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor, running: Running | None = None
) -> Tensor:
    """Returns [4, d]: mean, spread, slope and shift of the columns of h [n, d], which `running` takes in."""
    n, d = h.shape
    rows = 2 * tile_rows(d)  # as fast as it gets: few registers to spare, many loads under way
    programs = max(1, min(MOST_PROGRAMS, triton.cdiv(n, rows)))
    part = torch.empty(programs, 3, d, device=h.device)
    _moments[(programs,)](h, count, part, n, d, ROWS=rows, COLS=power_of_two(d))
    moments = torch.empty(4, d, device=part.device)
    narrow = min(MERGED, power_of_two(d))
    statistics = (moments, moments, 0.0) if running is None else (running.mean, running.spread, running.momentum)
    _merge_moments[(triton.cdiv(d, narrow),)](
        part, count, alpha, gamma, beta, moments, *statistics, programs, n, d,
        RUNNING=running is not None, UNBIASED=running is not None and running.unbiased,
        PROGRAMS=power_of_two(programs), COLS=narrow, num_warps=MERGING_WARPS,
    )  # fmt: skip
    return moments
