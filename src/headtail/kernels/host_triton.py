"""Triton kernel behind `host`: gathers rows of pinned host memory."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two, tile_rows


@triton.jit
def _host_rows(table_ptr, index_ptr, out_ptr, n, d, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    real = row < n
    inside = real[:, None] & (col < d)[None, :]
    source = tl.load(index_ptr + row, real, 0).to(tl.int64)
    value = tl.load(table_ptr + source[:, None] * d + col[None, :], inside, 0.0)
    tl.store(out_ptr + row.to(tl.int64)[:, None] * d + col[None, :], value, inside)


def host_rows(table: Tensor, index: Tensor, device: torch.device) -> Tensor:
    """Returns table[index] as [n, d] on a device; the table [N, d] is pinned, and its own address serves the kernel."""
    n, d = index.numel(), table.shape[1]
    out = torch.empty(n, d, dtype=table.dtype, device=device)
    if n and d:
        rows = tile_rows(d)
        _host_rows[(triton.cdiv(n, rows),)](
            table, index.contiguous(), out, n, d, ROWS=rows, COLS=power_of_two(d)
        )  # fmt: skip
    return out
