"""Deals the links of a batch's rows, in arrays of fixed size."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.launch import fused_on
from headtail.kernels.neighbours import rows_of_entries


@dataclass(frozen=True)
class Dealt:
    """Links of a batch.

    Attributes:
        ends: int64 [2, capacity], row and column of each link; N, which stands for no node, where there is none.
        rows: int64 [slots], the batch's rows, `num_rows` [] of them.
        asked: int64 [], how many links there should be.
        count: int64 [], how many there are: none where they do not fit.
    """

    ends: Tensor
    rows: Tensor
    num_rows: Tensor
    asked: Tensor
    count: Tensor


def deal_rows(
    row_ptr: Tensor, col: Tensor, order: Tensor, bounds: Tensor, number: Tensor, slots: int, capacity: int
) -> Dealt:
    """Deals all links of the rows of one batch, row after row.

    Args:
        row_ptr, col: the links, of N rows.
        order: int64, rows in the order in which they are dealt, at least `slots` more than all.
        bounds: int64 [batches + 1], batch b has the rows bounds[b] … bounds[b + 1] − 1 of the order, at most `slots`.
        number: int64 [1], which batch.
        capacity: room for links.
    """
    if fused_on(row_ptr.device):
        from headtail.kernels import deal_triton

        return Dealt(*deal_triton.deal_rows(row_ptr, col, order, bounds, number, slots, capacity))
    first, last = bounds[number], bounds[number + 1]
    slot = torch.arange(slots, device=row_ptr.device)
    rows = order[first + slot]
    degrees = row_ptr[rows + 1] - row_ptr[rows]
    ends = F.pad(torch.where(slot < last - first, degrees, 0).cumsum(0), (1, 0))
    starts = ends * (ends[-1] <= capacity)
    owner, real = rows_of_entries(starts, capacity)
    offset = torch.arange(capacity, device=row_ptr.device) - starts[owner]
    entry = torch.where(real, row_ptr[rows[owner]] + offset, 0)
    links = torch.where(real, torch.stack([rows[owner], col[entry]]), row_ptr.numel() - 1)
    return Dealt(links, rows, (last - first).squeeze(0), ends[-1], starts[-1])
