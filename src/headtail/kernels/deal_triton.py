"""The Triton kernels behind `deal`: how many links each row has, then, for every link, which one it is."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.scan_triton import ROWS, blocks_of, row_of, starts

LINKS = 256


@triton.jit
def _lengths(
    row_ptr, order_ptr, bound_ptr, number_ptr, row_out, num_rows_ptr, length_ptr, sums_ptr, slots, ROWS: tl.constexpr
):  # fmt: skip
    number = tl.load(number_ptr)
    first = tl.load(bound_ptr + number)
    count = tl.load(bound_ptr + number + 1) - first
    slot = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.load(order_ptr + first + slot, slot < slots, 0)
    here = (slot < slots) & (slot < count)
    length = tl.load(row_ptr + row + 1, here, 0) - tl.load(row_ptr + row, here, 0)
    tl.store(row_out + slot, row, slot < slots)
    tl.store(length_ptr + slot, length.to(tl.int32), slot < slots)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(length, 0))
    if tl.program_id(0) == 0:
        tl.store(num_rows_ptr, count)


@triton.jit
def _links(row_ptr, col_ptr, rows_ptr, start_ptr, end_ptr, slots, capacity, nothing, BLOCK: tl.constexpr):
    place = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    real = place < tl.load(start_ptr + slots)
    slot = row_of(start_ptr, slots, place, real)
    row = tl.load(rows_ptr + slot, real, 0)
    entry = tl.load(row_ptr + row, real, 0) + place - tl.load(start_ptr + slot, real, 0)
    col = tl.load(col_ptr + entry, real, 0)
    tl.store(end_ptr + place, tl.where(real, row, nothing), place < capacity)
    tl.store(end_ptr + capacity + place, tl.where(real, col, nothing), place < capacity)


def deal_rows(
    row_ptr: Tensor, col: Tensor, order: Tensor, bounds: Tensor, number: Tensor, slots: int, capacity: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns what `deal.Dealt` is made of."""
    blocks, device = blocks_of(slots), row_ptr.device
    rows = torch.empty(slots, dtype=torch.int64, device=device)
    num_rows = torch.empty((), dtype=torch.int64, device=device)
    lengths = torch.empty(slots, dtype=torch.int32, device=device)
    sums = torch.empty(1, blocks, dtype=torch.int64, device=device)
    _lengths[(blocks,)](row_ptr, order, bounds, number, rows, num_rows, lengths, sums, slots, ROWS=ROWS)
    start, total = starts(lengths, sums, capacity)
    ends = torch.empty(2, capacity, dtype=torch.int64, device=device)
    _links[(triton.cdiv(capacity, LINKS),)](
        row_ptr, col, rows, start, ends, slots, capacity, row_ptr.numel() - 1, BLOCK=LINKS
    )
    return ends, rows, num_rows, total[0], start[-1]
