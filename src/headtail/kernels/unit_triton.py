"""Triton kernels behind `unit`: rows scaled to length 1, and their gradient."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two, tile_rows

LEAST_LENGTH = tl.constexpr(1e-12)


@triton.jit
def _unit(x_ptr, out_ptr, length_ptr, n, d, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    inside = (row < n)[:, None] & (col < d)[None, :]
    place = row.to(tl.int64)[:, None] * d + col[None, :]
    x = tl.load(x_ptr + place, inside, 0.0).to(tl.float32)
    length = tl.maximum(tl.sqrt(tl.sum(x * x, 1)), LEAST_LENGTH)
    tl.store(out_ptr + place, x / length[:, None], inside)
    tl.store(length_ptr + row, length, row < n)


@triton.jit
def _unit_gradient(grad_ptr, out_ptr, length_ptr, grad_x_ptr, n, d, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    inside = (row < n)[:, None] & (col < d)[None, :]
    place = row.to(tl.int64)[:, None] * d + col[None, :]
    grad = tl.load(grad_ptr + place, inside, 0.0).to(tl.float32)
    out = tl.load(out_ptr + place, inside, 0.0).to(tl.float32)
    length = tl.load(length_ptr + row, row < n, 1.0)
    along = tl.sum(grad * out, 1)
    tl.store(grad_x_ptr + place, (grad - out * along[:, None]) / length[:, None], inside)


def forward(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns unit rows [n, d] and the lengths [n] that rows had."""
    n, d = x.shape
    out, length = torch.empty_like(x), torch.empty(n, device=x.device)
    if n:
        rows = tile_rows(d)
        _unit[(triton.cdiv(n, rows),)](x, out, length, n, d, ROWS=rows, COLS=power_of_two(d))
    return out, length


def backward(grad: Tensor, out: Tensor, length: Tensor) -> Tensor:
    n, d = out.shape
    grad_x = torch.empty_like(out)
    if n:
        rows = tile_rows(d)
        _unit_gradient[(triton.cdiv(n, rows),)](grad, out, length, grad_x, n, d, ROWS=rows, COLS=power_of_two(d))
    return grad_x
