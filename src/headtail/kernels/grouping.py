"""Groups numbers by key, in their own order."""

import torch
from torch import Tensor

from headtail.kernels.launch import fused_on


def grouped(keys: Tensor, sizes: tuple[int, ...]) -> list[tuple[Tensor, Tensor]]:
    """Returns, for each of several lists of n keys, row pointers [size + 1] and an order [n] that groups the keys.

    Args:
        keys: int32 [lists, n]; 0 … size − 1, or the size itself, which comes last, for padding.
        sizes: of every list.
    """
    if fused_on(keys.device):
        from headtail.kernels import grouping_triton

        return grouping_triton.grouped(keys, sizes)
    return [_grouped(each, size) for each, size in zip(keys, sizes, strict=True)]


def transposed(keys: Tensor, size: int, row: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns row pointers [size + 1], and rows and weights [n] of entries, grouped by their keys.

    Args:
        keys: int32 [n], the column of every entry; `size` for padding.
        row, weight: int64, float32 [n].
    """
    if fused_on(keys.device):
        from headtail.kernels import grouping_triton

        return grouping_triton.transposed(keys, size, row, weight)
    row_ptr, order = _grouped(keys, size)
    return row_ptr, row[order], weight[order]


def _grouped(keys: Tensor, size: int) -> tuple[Tensor, Tensor]:
    ordered, order = torch.sort(keys, stable=True)
    return torch.searchsorted(ordered, torch.arange(size + 1, dtype=torch.int32, device=keys.device)), order
