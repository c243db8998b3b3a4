"""Triton kernels behind `gather`: sums of gathered rows, and products of gathered rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two, tile_rows

# Rows of more entries are cut into columns and summed by programs of their own: one of them alone would take as long as
# all others together.
LONG = 32
# Entries of every row that are on their way at once, elements of one entry of all rows of a program, and its warps.
AT_ONCE, ABREAST, WARPS = 4, 512, 2
# Programs that look for long rows; the entries and columns of these that one sums at once, and its warps.
LOOKING, OF_LONG, COLUMNS, OF_LONG_WARPS = 1024, 128, 32, 4


@triton.jit
def _entries(
    entry, real, in_row, col, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, d,
    WEIGHTED: tl.constexpr, PRODUCT: tl.constexpr,
):  # fmt: skip
    """Returns weight_e · x[a_e] (⊙ y[b_e]) for entries e, a row each."""
    inside = real[:, None] & in_row[None, :]
    a = tl.load(a_ptr + entry, real, 0).to(tl.int64)
    value = tl.load(x_ptr + a[:, None] * d + col[None, :], inside, 0.0).to(tl.float32)
    if PRODUCT:
        b = tl.load(b_ptr + a, real, 0).to(tl.int64)
        value *= tl.load(y_ptr + b[:, None] * d + col[None, :], inside, 0.0).to(tl.float32)
    if WEIGHTED:
        value *= tl.load(weight_ptr + entry, real, 0.0)[:, None]
    return value


@triton.jit
def _segment_sum(
    row_ptr, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, out_ptr, width, rows, d, own_ptr,
    WEIGHTED: tl.constexpr, PRODUCT: tl.constexpr, BESIDE: tl.constexpr, LONG: tl.constexpr,
    ENTRIES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program i writes Σ_e weight_e · x[a_e] (⊙ y[b_e]) over the entries e of each of ROWS rows that is not long.

    One entry of every row is a tile, so every thread sums what it has read. Where BESIDE, x[own] is written behind it.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = row < rows
    first, last = tl.load(row_ptr + row, real, 0), tl.load(row_ptr + row + 1, real, 0)
    short = last - first <= LONG
    last = tl.where(short, last, first)
    col = tl.arange(0, COLS)
    in_row = col < d
    total = tl.zeros([ROWS, COLS], tl.float32)
    for offset in range(0, tl.max(last - first, 0), ENTRIES):
        for each in tl.static_range(ENTRIES):
            entry = first + offset + each
            total += _entries(
                entry, entry < last, in_row, col, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, d, WEIGHTED, PRODUCT
            )
    place = row.to(tl.int64)[:, None] * width + col[None, :]
    tl.store(out_ptr + place, total, (real & short)[:, None] & in_row[None, :])
    if BESIDE:
        inside = real[:, None] & in_row[None, :]
        own = tl.load(own_ptr + row, real, 0).to(tl.int64)
        tl.store(out_ptr + place + d, tl.load(x_ptr + own[:, None] * d + col[None, :], inside, 0.0), inside)


@triton.jit
def _long_segment_sum(
    row_ptr, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, out_ptr, width, rows, d,
    WEIGHTED: tl.constexpr, PRODUCT: tl.constexpr, LONG: tl.constexpr,
    ENTRIES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program (i, j) writes COLS columns of the sums of those among ROWS rows that are long."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lengths = tl.load(row_ptr + row + 1, row < rows, 0) - tl.load(row_ptr + row, row < rows, 0)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    in_row = col < d
    left = tl.where(lengths > LONG, row, rows)
    each = tl.min(left, 0)
    while each < rows:
        first, last = tl.load(row_ptr + each), tl.load(row_ptr + each + 1)
        total = tl.zeros([ENTRIES, COLS], tl.float32)
        for offset in range(first, last, ENTRIES):
            entry = offset + tl.arange(0, ENTRIES)
            total += _entries(
                entry, entry < last, in_row, col, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, d, WEIGHTED, PRODUCT
            )
        tl.store(out_ptr + each.to(tl.int64) * width + col, tl.sum(total, 0), in_row)
        left = tl.where(left > each, left, rows)
        each = tl.min(left, 0)


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


def segment_sum(
    row_ptr: Tensor,
    col: Tensor,
    weight: Tensor | None,
    x: Tensor,
    longest: int | None = None,
    own: Tensor | None = None,
) -> Tensor:
    """Returns [rows, d]: Σ_e weight_e · x[col_e] over the entries of every row; with x[own] beside it, [rows, 2d]."""
    return _sum(row_ptr, col.contiguous(), None, weight, x, None, longest, own)


def segment_sum_of_products(row_ptr: Tensor, place: Tensor, other: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Returns [rows, d]: Σ_e x[p] ⊙ y[other[p]], p = place[e], over the entries e of every row."""
    return _sum(row_ptr, place.contiguous(), other.contiguous(), None, x, y)


def _sum(
    row_ptr: Tensor,
    a: Tensor,
    b: Tensor | None,
    weight: Tensor | None,
    x: Tensor,
    y: Tensor | None,
    longest: int | None = None,
    own: Tensor | None = None,
) -> Tensor:
    rows, d = row_ptr.numel() - 1, x.shape[1]
    width = d if own is None else 2 * d
    out = torch.empty(rows, width, dtype=x.dtype, device=x.device)
    if not rows or not d:
        return out
    x_and_y = x, x if y is None else y
    given = row_ptr, a, a if b is None else b, x if weight is None else weight, *x_and_y, out, width, rows, d
    kind = {"WEIGHTED": weight is not None, "PRODUCT": y is not None, "LONG": LONG}
    cols = power_of_two(d)
    abreast, wide = max(1, ABREAST // cols), min(COLUMNS, cols)
    _segment_sum[(triton.cdiv(rows, abreast),)](
        *given, a if own is None else own.contiguous(), **kind,
        BESIDE=own is not None, ENTRIES=AT_ONCE, ROWS=abreast, COLS=cols, num_warps=WARPS,
    )  # fmt: skip
    if min(a.numel(), a.numel() if longest is None else longest) > LONG:
        looked_at = power_of_two(triton.cdiv(rows, LOOKING))
        _long_segment_sum[(triton.cdiv(rows, looked_at), triton.cdiv(d, wide))](
            *given, **kind, ENTRIES=OF_LONG, ROWS=looked_at, COLS=wide, num_warps=OF_LONG_WARPS
        )
    return out


def pair_product(u: Tensor, v: Tensor, left: Tensor, right: Tensor, kind: torch.dtype) -> Tensor:
    """Returns [P, d]: u[left] ⊙ v[right]."""
    n, d = left.numel(), u.shape[1]
    left, right = left.contiguous(), right.contiguous()
    out = torch.empty(n, d, dtype=kind, device=u.device)
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
