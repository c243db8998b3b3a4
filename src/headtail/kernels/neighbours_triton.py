"""The Triton kernels behind `neighbours`: draw, weight and list the neighbours of some rows in one pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.offsets_triton import draw_rows, ranks, tile_of_draws
from headtail.kernels.scan_triton import ROWS, blocks_of, row_of, starts

# Rows that one program draws where there are few; entries that one program lists.
FEW, FEW_AT_ONCE, ENTRIES = 32768, 16, 256


@triton.jit
def _lengths(
    row_ptr, target_ptr, expanded_ptr, length_ptr, sums_ptr, n, nothing, count, blocks,
    ALL: tl.constexpr, WEIGHTED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    target = tl.load(target_ptr + row, row < n, nothing)
    real = target < nothing
    opened = real & (tl.load(expanded_ptr + row, real, 0) != 0)
    degree = tl.load(row_ptr + target + 1, opened, 0) - tl.load(row_ptr + target, opened, 0)
    length = degree
    if not ALL:
        length = tl.minimum(degree, count)
    if WEIGHTED:
        length += (degree > count).to(tl.int64)
    length = tl.where(opened, length, real.to(tl.int64))
    tl.store(length_ptr + row, length.to(tl.int32), row < n)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(length, 0))
    tl.store(sums_ptr + blocks + tl.program_id(0), tl.sum(opened.to(tl.int64), 0))


@triton.jit
def _draw(
    row_ptr, col_ptr, diagonal_ptr, relative_ptr, target_ptr, expanded_ptr, start_ptr,
    uniform_ptr, order_ptr, by_row, by_col,
    node_ptr, owner_ptr, weight_ptr, kept_ptr, n, keep, count, ratio, capacity, share, padding,
    WEIGHTED: tl.constexpr, RELATIVE: tl.constexpr, PADDED: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, AXIS: tl.constexpr,
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
    chosen, key, valid = draw_rows(uniform_ptr, order_ptr, by_row, by_col, row, degree, real, count, ROWS, COLS, AXIS)
    place = ranks(key, count, COLS, AXIS)
    drawn = tl.minimum(degree, count)
    alone = length > drawn
    heavy = tl.full([ROWS], 1.0, tl.float32)
    if WEIGHTED:
        heavy = tl.where(degree > count, ratio, tl.maximum((degree - keep).to(tl.float32) / keep, 1.0))
    blocked = tl.maximum(drawn - keep, 0).to(tl.float32)
    total = tl.minimum(degree, keep).to(tl.float32) * heavy + blocked + alone.to(tl.float32)
    kept = place < keep
    here = tl.expand_dims(start, AXIS) + place
    entry = tl.expand_dims(first, AXIS) + chosen
    weight = tl.where(kept, tl.expand_dims(heavy, AXIS), 1.0) / tl.expand_dims(total, AXIS)
    if RELATIVE:
        weight *= tl.load(relative_ptr + entry, valid, 0.0)
    owner = row.to(tl.int64)
    tl.store(node_ptr + here, tl.load(col_ptr + entry, valid, 0), valid)
    tl.store(owner_ptr + here, tl.expand_dims(owner, AXIS) + tl.zeros_like(place), valid)
    tl.store(weight_ptr + here, weight, valid)
    tl.store(kept_ptr + here, kept, valid)
    alone = alone & real
    itself = start + length - 1
    weight = 1.0 / total
    if RELATIVE:
        weight *= tl.load(relative_ptr + tl.load(diagonal_ptr + target, alone, 0), alone, 0.0)
    tl.store(node_ptr + itself, target, alone)
    tl.store(owner_ptr + itself, owner, alone)
    tl.store(weight_ptr + itself, weight, alone)
    tl.store(kept_ptr + itself, alone & (row < 0), alone)
    # Every program pads its share of the entries, as far as no row owns them.
    all_real = tl.load(start_ptr + n)
    last = tl.minimum((tl.program_id(0) + 1) * share, capacity)
    for begin in range(tl.program_id(0) * share, last, PADDED):
        left = begin + tl.arange(0, PADDED)
        free = (left >= all_real) & (left < last)
        tl.store(node_ptr + left, tl.zeros([PADDED], tl.int64) + padding, free)
        tl.store(owner_ptr + left, tl.zeros([PADDED], tl.int64) + (n - 1), free)
        tl.store(weight_ptr + left, tl.zeros([PADDED], tl.float32), free)
        tl.store(kept_ptr + left, left < 0, free)


@triton.jit
def _list_all(
    row_ptr, col_ptr, diagonal_ptr, relative_ptr, target_ptr, expanded_ptr, start_ptr,
    node_ptr, owner_ptr, weight_ptr, kept_ptr, n, capacity, padding, RELATIVE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    real = place < tl.load(start_ptr + n)
    row = row_of(start_ptr, n, place, real)
    start = tl.load(start_ptr + row, real, 0)
    length = tl.load(start_ptr + row + 1, real, 1) - start
    target = tl.load(target_ptr + row, real, 0)
    opened = tl.load(expanded_ptr + row, real, 0) != 0
    entry = tl.load(row_ptr + target, real & opened, 0) + place - start
    entry = tl.where(opened, entry, tl.load(diagonal_ptr + target, real & (opened == 0), 0))
    weight = tl.where(real, 1.0 / length.to(tl.float32), 0.0)
    if RELATIVE:
        weight *= tl.load(relative_ptr + entry, real, 0.0)
    inside = place < capacity
    node = tl.load(col_ptr + entry, real, 0)
    tl.store(node_ptr + place, tl.where(real, node, padding), inside)
    tl.store(owner_ptr + place, tl.where(real, row, n - 1), inside)
    tl.store(weight_ptr + place, weight, inside)
    tl.store(kept_ptr + place, real & opened, inside)


def laid_out(adjacency, targets: Tensor, expanded: Tensor, plan, capacity: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns starts, asked and opened of `neighbours.Rows`."""
    n, blocks, device = targets.numel(), blocks_of(targets.numel()), targets.device
    lengths = torch.empty(n, dtype=torch.int32, device=device)
    sums = torch.empty(2, blocks, dtype=torch.int64, device=device)
    _lengths[(blocks,)](
        adjacency.row_ptr, targets, expanded, lengths, sums,
        n, adjacency.row_ptr.numel() - 1, 0 if plan is None else plan.count, blocks,
        ALL=plan is None, WEIGHTED=plan is not None and plan.ratio is not None, ROWS=ROWS,
    )  # fmt: skip
    start, (asked, opened) = starts(lengths, sums, capacity)
    return start, asked, opened


def draw(
    adjacency, targets: Tensor, expanded: Tensor, starts: Tensor, plan,
    uniform: Tensor, order: Tensor, capacity: int, padding: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Returns node, row, weight and kept [capacity] of `neighbours.Drawn`."""
    assert uniform.stride() == order.stride()
    n, found = targets.numel(), _room(capacity, targets.device)
    tile = tile_of_draws(plan.count)
    if n < FEW and tile["AXIS"] == 1:
        tile["ROWS"] = FEW_AT_ONCE
    programs = max(1, triton.cdiv(n, tile["ROWS"]))
    _draw[(programs,)](
        adjacency.row_ptr, adjacency.col, adjacency.diagonal, adjacency.relative, targets, expanded, starts,
        uniform, order, *uniform.stride(), *found, n, plan.keep, plan.count, plan.ratio or 0.0, capacity,
        triton.cdiv(capacity, programs), padding, WEIGHTED=plan.ratio is not None,
        RELATIVE=adjacency.relative is not None, PADDED=ENTRIES, **tile,
    )  # fmt: skip
    return found


def list_all(
    adjacency, targets: Tensor, expanded: Tensor, starts: Tensor, capacity: int, padding: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns node, row, weight and kept [capacity] of `neighbours.Drawn`."""
    found = _room(capacity, targets.device)
    if capacity:
        _list_all[(triton.cdiv(capacity, ENTRIES),)](
            adjacency.row_ptr, adjacency.col, adjacency.diagonal, adjacency.relative, targets, expanded, starts,
            *found, targets.numel(), capacity, padding, RELATIVE=adjacency.relative is not None, BLOCK=ENTRIES,
        )  # fmt: skip
    return found


def _room(capacity: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    node, row = (torch.empty(capacity, dtype=torch.int64, device=device) for _ in range(2))
    return node, row, torch.empty(capacity, device=device), torch.empty(capacity, dtype=torch.bool, device=device)
