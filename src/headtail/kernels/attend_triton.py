"""Triton kernels behind `attend`: attention in one pass over the entries, and its gradients in one pass each way."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two, tile_rows

SLOPE = tl.constexpr(0.2)
# Entries of a row that are gathered at once, at most; by one warp, as in `gather_triton`.
MOST_ENTRIES, WARPS = 8, 1
# Programs that each add up the gradient of the direction over some rows: enough to fill a large GPU.
MOST_SUMS = 8192


@triton.jit
def _attend(
    row_ptr, col_ptr, x_ptr, direction_ptr, from_target_ptr, out_ptr, softmax_ptr, d,
    ENTRIES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program i writes row i's sum and softmax; what was summed is scaled again when a larger logit comes."""
    row = tl.program_id(0).to(tl.int64)
    first, last = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
    place = tl.arange(0, COLS)
    in_row = place < d
    direction = tl.load(direction_ptr + place, in_row, 0.0)
    from_target = tl.load(from_target_ptr + row)
    top = float("-inf")
    total = 0.0
    summed = tl.zeros([COLS], tl.float32)
    for start in range(first, last, ENTRIES):
        entry = start + tl.arange(0, ENTRIES)
        real = entry < last
        col = tl.load(col_ptr + entry, real, 0).to(tl.int64)
        x = tl.load(x_ptr + col[:, None] * d + place[None, :], real[:, None] & in_row[None, :], 0.0).to(tl.float32)
        raw = tl.sum(x * direction[None, :], 1) + from_target
        logit = tl.where(real, tl.where(raw > 0, raw, SLOPE * raw), float("-inf"))
        higher = tl.maximum(top, tl.max(logit, 0))
        scale, exponent = tl.exp(top - higher), tl.exp(logit - higher)
        total = total * scale + tl.sum(exponent, 0)
        summed = summed * scale + tl.sum(exponent[:, None] * x, 0)
        top = higher
    tl.store(out_ptr + row * d + place, summed / tl.where(first < last, total, 1.0), in_row)
    tl.store(softmax_ptr + 2 * row, top)
    tl.store(softmax_ptr + 2 * row + 1, total)


@triton.jit
def _target_gradients(
    row_ptr, col_ptr, x_ptr, direction_ptr, from_target_ptr, softmax_ptr, grad_ptr,
    sums_ptr, of_target_ptr, facts_ptr, rows, rows_per_program, d,
    ENTRIES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program k goes through some rows: it writes what is theirs, and the sum of what they give to the direction.

    With o_j = grad · x_j and the row's mean ō = Σ p_j o_j, the gradient of entry j is p_j · slope_j · (o_j − ō). The
    mean is known only at the end of a row, so the part with o_j and the part with ō are summed apart.
    """
    program = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, COLS)
    in_row = place < d
    direction = tl.load(direction_ptr + place, in_row, 0.0)
    of_direction = tl.zeros([COLS], tl.float32)
    start_row = program * rows_per_program
    for row in range(start_row, tl.minimum(start_row + rows_per_program, rows)):
        first, last = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
        from_target = tl.load(from_target_ptr + row)
        top = tl.load(softmax_ptr + 2 * row)
        share = 1.0 / tl.where(first < last, tl.load(softmax_ptr + 2 * row + 1), 1.0)
        grad = tl.load(grad_ptr + row * d + place, in_row, 0.0).to(tl.float32)
        along = 0.0
        slopes = 0.0
        slopes_along = 0.0
        sloped_x = tl.zeros([COLS], tl.float32)
        sloped_x_along = tl.zeros([COLS], tl.float32)
        for start in range(first, last, ENTRIES):
            entry = start + tl.arange(0, ENTRIES)
            real = entry < last
            col = tl.load(col_ptr + entry, real, 0).to(tl.int64)
            x = tl.load(x_ptr + col[:, None] * d + place[None, :], real[:, None] & in_row[None, :], 0.0).to(tl.float32)
            raw = tl.sum(x * direction[None, :], 1) + from_target
            weight = tl.where(real, tl.exp(tl.where(raw > 0, raw, SLOPE * raw) - top) * share, 0.0)
            sloped = tl.where(raw > 0, weight, SLOPE * weight)
            of_weight = tl.sum(x * grad[None, :], 1)
            along += tl.sum(weight * of_weight, 0)
            slopes += tl.sum(sloped, 0)
            slopes_along += tl.sum(sloped * of_weight, 0)
            sloped_x += tl.sum(sloped[:, None] * x, 0)
            sloped_x_along += tl.sum((sloped * of_weight)[:, None] * x, 0)
        of_direction += sloped_x_along - along * sloped_x
        tl.store(of_target_ptr + row, slopes_along - along * slopes)
        tl.store(facts_ptr + 4 * row, from_target)
        tl.store(facts_ptr + 4 * row + 1, top)
        tl.store(facts_ptr + 4 * row + 2, share)
        tl.store(facts_ptr + 4 * row + 3, along)
    tl.store(sums_ptr + program * d + place, of_direction, in_row)


@triton.jit
def _source_gradient(
    row_ptr, col_ptr, x_ptr, direction_ptr, facts_ptr, grad_ptr, out_ptr, d,
    ENTRIES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program j writes the gradient of source j: of the sums it went into, and of the logits it gave rise to."""
    row = tl.program_id(0).to(tl.int64)
    first, last = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
    place = tl.arange(0, COLS)
    in_row = place < d
    direction = tl.load(direction_ptr + place, in_row, 0.0)
    x = tl.load(x_ptr + row * d + place, in_row, 0.0).to(tl.float32)
    from_source = tl.sum(x * direction, 0)
    of_source = 0.0
    through_sums = tl.zeros([COLS], tl.float32)
    for start in range(first, last, ENTRIES):
        entry = start + tl.arange(0, ENTRIES)
        real = entry < last
        target = tl.load(col_ptr + entry, real, 0).to(tl.int64)
        raw = from_source + tl.load(facts_ptr + 4 * target, real, 0.0)
        top = tl.load(facts_ptr + 4 * target + 1, real, 0.0)
        share = tl.load(facts_ptr + 4 * target + 2, real, 0.0)
        along = tl.load(facts_ptr + 4 * target + 3, real, 0.0)
        weight = tl.where(real, tl.exp(tl.where(raw > 0, raw, SLOPE * raw) - top) * share, 0.0)
        grad = tl.load(grad_ptr + target[:, None] * d + place[None, :], real[:, None] & in_row[None, :], 0.0)
        grad = grad.to(tl.float32)
        of_weight = tl.sum(grad * x[None, :], 1) - along
        of_source += tl.sum(tl.where(raw > 0, weight, SLOPE * weight) * of_weight, 0)
        through_sums += tl.sum(weight[:, None] * grad, 0)
    tl.store(out_ptr + row * d + place, through_sums + of_source * direction, in_row)


def attend(row_ptr: Tensor, col: Tensor, x: Tensor, direction: Tensor, from_target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the sums [T, d], and each row's largest logit and Σ exp(logit − largest) [T, 2]."""
    rows, d = row_ptr.numel() - 1, x.shape[1]
    out = torch.empty(rows, d, dtype=x.dtype, device=x.device)
    softmax = torch.empty(rows, 2, device=x.device)
    if rows:
        _attend[(rows,)](
            row_ptr, col.contiguous(), x, direction.contiguous(), from_target.contiguous(), out, softmax, d,
            ENTRIES=min(MOST_ENTRIES, tile_rows(d)), COLS=power_of_two(d), num_warps=WARPS,
        )  # fmt: skip
    return out, softmax


def target_gradients(
    row_ptr: Tensor, col: Tensor, x: Tensor, direction: Tensor, from_target: Tensor, softmax: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of the direction [d] and of from_target [T], and the facts [T, 4] of every row."""
    rows, d = row_ptr.numel() - 1, x.shape[1]
    rows_per_program = max(1, triton.cdiv(rows, MOST_SUMS))
    programs = triton.cdiv(rows, rows_per_program)
    sums = torch.empty(programs, d, device=x.device)
    of_target, facts = torch.empty(rows, device=x.device), torch.empty(rows, 4, device=x.device)
    if rows:
        _target_gradients[(programs,)](
            row_ptr, col.contiguous(), x, direction.contiguous(), from_target.contiguous(), softmax, grad.contiguous(),
            sums, of_target, facts, rows, rows_per_program, d,
            ENTRIES=min(MOST_ENTRIES, tile_rows(d)), COLS=power_of_two(d), num_warps=WARPS,
        )  # fmt: skip
    return sums.sum(dim=0), of_target, facts


def source_gradient(row_ptr: Tensor, col: Tensor, x: Tensor, direction: Tensor, facts: Tensor, grad: Tensor) -> Tensor:
    """Returns the gradient [S, d] of x from the rows of every source."""
    rows, d = x.shape
    out = torch.empty_like(x)
    if rows:
        _source_gradient[(rows,)](
            row_ptr, col.contiguous(), x, direction.contiguous(), facts, grad.contiguous(), out, d,
            ENTRIES=min(MOST_ENTRIES, tile_rows(d)), COLS=power_of_two(d), num_warps=WARPS,
        )  # fmt: skip
    return out
