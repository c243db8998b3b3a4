"""The Triton kernel behind `neighbours`: draws, weights and lists the neighbours of some rows in one pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two
from headtail.kernels.offsets_triton import ROWS_AT_ONCE, draw_rows, ranks


@triton.jit
def _draw(
    row_ptr, diagonal_ptr, target_ptr, expanded_ptr, start_ptr, uniform_ptr, order_ptr,
    entry_ptr, weight_ptr, kept_ptr, n, keep, count, ratio,
    WEIGHTED: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < n
    start = tl.load(start_ptr + row, real, 0)
    length = tl.load(start_ptr + row + 1, real, 0) - start
    real = real & (length > 0)
    target = tl.load(target_ptr + row, real, 0)
    first = tl.load(row_ptr + target, real, 0)
    degree = tl.load(row_ptr + target + 1, real, 0) - first
    opened = tl.load(expanded_ptr + row, real, 0) != 0
    degree = tl.where(opened, degree, 0)
    chosen, key, valid = draw_rows(uniform_ptr, order_ptr, row, degree, real, count, ROWS, COLS)
    place = ranks(key, count, ROWS, COLS)
    drawn = tl.minimum(degree, count)
    alone = length > drawn
    heavy = tl.full([ROWS], 1.0, tl.float32)
    if WEIGHTED:
        heavy = tl.where(degree > count, ratio, tl.maximum((degree - keep).to(tl.float32) / keep, 1.0))
    blocked = tl.maximum(drawn - keep, 0).to(tl.float32)
    total = tl.minimum(degree, keep).to(tl.float32) * heavy + blocked + alone.to(tl.float32)
    kept = place < keep
    here = start[:, None] + place
    tl.store(entry_ptr + here, first[:, None] + chosen, valid)
    tl.store(weight_ptr + here, tl.where(kept, heavy[:, None], 1.0) / total[:, None], valid)
    tl.store(kept_ptr + here, kept, valid)
    itself = start + length - 1
    tl.store(entry_ptr + itself, tl.load(diagonal_ptr + target, real & alone, 0), real & alone)
    tl.store(weight_ptr + itself, 1.0 / total, real & alone)


def draw(
    row_ptr: Tensor,
    diagonal: Tensor,
    targets: Tensor,
    expanded: Tensor,
    starts: Tensor,
    plan,
    uniform: Tensor,
    order: Tensor,
    capacity: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns entry, weight and kept [capacity] of `neighbours.Drawn`."""
    n, device = targets.numel(), targets.device
    entry = torch.zeros(capacity, dtype=torch.int64, device=device)
    weight = torch.zeros(capacity, device=device)
    kept = torch.zeros(capacity, dtype=torch.bool, device=device)
    if n:
        _draw[(triton.cdiv(n, ROWS_AT_ONCE),)](
            row_ptr, diagonal, targets, expanded, starts, uniform, order, entry, weight, kept,
            n, plan.keep, plan.count, plan.ratio or 0.0,
            WEIGHTED=plan.ratio is not None, ROWS=ROWS_AT_ONCE, COLS=power_of_two(plan.count),
        )  # fmt: skip
    return entry, weight, kept
