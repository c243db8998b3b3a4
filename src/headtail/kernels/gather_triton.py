"""Triton kernels behind `gather`: sums of gathered rows, and products of gathered rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two, tile_rows

# Entries of a row that are gathered at once: of a short row, and of a long one, which is what everyone waits for.
FEW, MANY = 4, 16
# One warp a row: rows are short, and starting a program of four for each took four times as long.
WARPS = 1


@triton.jit
def _sum_entries(
    start, last, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, col, in_row, d,
    WEIGHTED: tl.constexpr, PRODUCT: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    """Returns Σ_e weight_e · x[a_e] (⊙ y[b_e]) over some entries from `start` on."""
    entry = start + tl.arange(0, ENTRIES)
    real = entry < last
    inside = real[:, None] & in_row[None, :]
    a = tl.load(a_ptr + entry, real, 0).to(tl.int64)
    value = tl.load(x_ptr + a[:, None] * d + col[None, :], inside, 0.0).to(tl.float32)
    if PRODUCT:
        b = tl.load(b_ptr + a, real, 0).to(tl.int64)
        value *= tl.load(y_ptr + b[:, None] * d + col[None, :], inside, 0.0).to(tl.float32)
    if WEIGHTED:
        value *= tl.load(weight_ptr + entry, real, 0.0)[:, None]
    return tl.sum(value, 0)


@triton.jit
def _segment_sum(
    row_ptr, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, out_ptr, d,
    WEIGHTED: tl.constexpr, PRODUCT: tl.constexpr, FEW: tl.constexpr, MANY: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program i writes Σ_e weight_e · x[a_e] (⊙ y[b_e]) over the entries e of row i."""
    row = tl.program_id(0).to(tl.int64)
    first, last = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
    col = tl.arange(0, COLS)
    in_row = col < d
    total = tl.zeros([COLS], tl.float32)
    if last - first <= FEW:
        total += _sum_entries(
            first, last, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, col, in_row, d, WEIGHTED, PRODUCT, FEW
        )
    else:
        for start in range(first, last, MANY):
            total += _sum_entries(
                start, last, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, col, in_row, d, WEIGHTED, PRODUCT, MANY
            )
    tl.store(out_ptr + row * d + col, total, in_row)


@triton.jit
def _take_rows(table_ptr, index_ptr, out_ptr, n, d, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    real = row < n
    inside = real[:, None] & (col < d)[None, :]
    source = tl.load(index_ptr + row, real, 0).to(tl.int64)
    value = tl.load(table_ptr + source[:, None] * d + col[None, :], inside, 0.0)
    tl.store(out_ptr + row.to(tl.int64)[:, None] * d + col[None, :], value, inside)


@triton.jit
def _pair_product(u_ptr, v_ptr, left_ptr, right_ptr, out_ptr, n, d, ROWS: tl.constexpr, COLS: tl.constexpr):
    pair = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    real = pair < n
    inside = real[:, None] & (col < d)[None, :]
    left = tl.load(left_ptr + pair, real, 0).to(tl.int64)
    right = tl.load(right_ptr + pair, real, 0).to(tl.int64)
    u = tl.load(u_ptr + left[:, None] * d + col[None, :], inside, 0.0).to(tl.float32)
    v = tl.load(v_ptr + right[:, None] * d + col[None, :], inside, 0.0).to(tl.float32)
    tl.store(out_ptr + pair.to(tl.int64)[:, None] * d + col[None, :], u * v, inside)


def segment_sum(row_ptr: Tensor, col: Tensor, weight: Tensor | None, x: Tensor) -> Tensor:
    """Returns [rows, d]: Σ_e weight_e · x[col_e] over the entries of every row."""
    return _sum(row_ptr, col.contiguous(), None, weight, x, None)


def segment_sum_of_products(row_ptr: Tensor, place: Tensor, other: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Returns [rows, d]: Σ_e x[p] ⊙ y[other[p]], p = place[e], over the entries e of every row."""
    return _sum(row_ptr, place.contiguous(), other.contiguous(), None, x, y)


def _sum(row_ptr: Tensor, a: Tensor, b: Tensor | None, weight: Tensor | None, x: Tensor, y: Tensor | None) -> Tensor:
    rows, d = row_ptr.numel() - 1, x.shape[1]
    out = torch.empty(rows, d, dtype=x.dtype, device=x.device)
    if rows:
        many = min(MANY, tile_rows(d))
        _segment_sum[(rows,)](
            row_ptr, a, a if b is None else b, x if weight is None else weight, x, x if y is None else y, out, d,
            WEIGHTED=weight is not None, PRODUCT=y is not None, FEW=min(FEW, many), MANY=many,
            COLS=power_of_two(d), num_warps=WARPS,
        )  # fmt: skip
    return out


def pair_product(u: Tensor, v: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Returns [P, d]: u[left] ⊙ v[right]."""
    n, d = left.numel(), u.shape[1]
    left, right = left.contiguous(), right.contiguous()
    out = torch.empty(n, d, dtype=u.dtype, device=u.device)
    if n:
        rows = tile_rows(d)
        _pair_product[(triton.cdiv(n, rows),)](u, v, left, right, out, n, d, ROWS=rows, COLS=power_of_two(d))
    return out


def take_rows(table: Tensor, index: Tensor, device: torch.device) -> Tensor:
    """Returns table[index] as [n, d] on a device; the table [N, d] is there too, or in pinned host memory."""
    n, d = index.numel(), table.shape[1]
    out = torch.empty(n, d, dtype=table.dtype, device=device)
    if n and d:
        rows = tile_rows(d)
        _take_rows[(triton.cdiv(n, rows),)](table, index.contiguous(), out, n, d, ROWS=rows, COLS=power_of_two(d))
    return out
