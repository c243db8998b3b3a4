"""Triton kernels behind `gather`: sums of gathered rows, and products of gathered rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.launch import power_of_two, tile_rows

# Rows of more entries are cut into columns and summed by programs of their own: one of them alone would take as long as
# all others together.
LONG = 128
# Entries that are gathered at once where rows have few on average, more, and many; and of a long row.
FEW, MORE, MANY, OF_LONG = 4, 8, 16, 256
# Elements of one entry of every row that a program sums; rows that one looks through for long ones, and its columns.
ABREAST, LOOKED_AT, COLUMNS = 1024, 64, 64


@triton.jit
def _entries(
    entry, real, in_row, col, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, d,
    WEIGHTED: tl.constexpr, PRODUCT: tl.constexpr,
):  # fmt: skip
    """Returns weight_e · x[a_e] (⊙ y[b_e]) for entries e of any shape, with the columns as one more dimension."""
    inside = tl.expand_dims(real, -1) & in_row
    a = tl.load(a_ptr + entry, real, 0).to(tl.int64)
    value = tl.load(x_ptr + tl.expand_dims(a, -1) * d + col, inside, 0.0).to(tl.float32)
    if PRODUCT:
        b = tl.load(b_ptr + a, real, 0).to(tl.int64)
        value *= tl.load(y_ptr + tl.expand_dims(b, -1) * d + col, inside, 0.0).to(tl.float32)
    if WEIGHTED:
        value *= tl.expand_dims(tl.load(weight_ptr + entry, real, 0.0), -1)
    return value


@triton.jit
def _segment_sum(
    row_ptr, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, out_ptr, rows, d,
    WEIGHTED: tl.constexpr, PRODUCT: tl.constexpr, LONG: tl.constexpr,
    ENTRIES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program i writes Σ_e weight_e · x[a_e] (⊙ y[b_e]) over the entries e of each of ROWS rows that is not long.

    Entries are the first dimension of a tile, so every thread sums what it has read.
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
        entry = first[None, :] + offset + tl.arange(0, ENTRIES)[:, None]
        total += tl.sum(
            _entries(
                entry, entry < last[None, :], in_row[None, None, :], col[None, None, :],
                a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, d, WEIGHTED, PRODUCT,
            ), 0,
        )  # fmt: skip
    place = row.to(tl.int64)[:, None] * d + col[None, :]
    tl.store(out_ptr + place, total, (real & short)[:, None] & in_row[None, :])


@triton.jit
def _long_segment_sum(
    row_ptr, a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, out_ptr, rows, d,
    WEIGHTED: tl.constexpr, PRODUCT: tl.constexpr, LONG: tl.constexpr,
    ENTRIES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program (i, j) writes COLS columns of the sums of those among ROWS rows that are long."""
    start = tl.program_id(0) * ROWS
    row = start + tl.arange(0, ROWS)
    lengths = tl.load(row_ptr + row + 1, row < rows, 0) - tl.load(row_ptr + row, row < rows, 0)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    in_row = col < d
    if tl.max(lengths, 0) > LONG:
        for each in range(start, tl.minimum(start + ROWS, rows)):
            first, last = tl.load(row_ptr + each), tl.load(row_ptr + each + 1)
            if last - first > LONG:
                total = tl.zeros([ENTRIES, COLS], tl.float32)
                for offset in range(first, last, ENTRIES):
                    entry = offset + tl.arange(0, ENTRIES)
                    total += _entries(
                        entry, entry < last, in_row[None, :], col[None, :],
                        a_ptr, b_ptr, weight_ptr, x_ptr, y_ptr, d, WEIGHTED, PRODUCT,
                    )  # fmt: skip
                place = tl.full([COLS], each, tl.int64) * d + col
                tl.store(out_ptr + place, tl.sum(total, 0), in_row)


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
    if not rows or not d:
        return out
    given = (row_ptr, a, a if b is None else b, x if weight is None else weight, x, x if y is None else y, out, rows, d)
    kind = {"WEIGHTED": weight is not None, "PRODUCT": y is not None, "LONG": LONG}
    average, cols = a.numel() / rows, power_of_two(d)
    entries = FEW if average <= FEW else MORE if average <= MANY else MANY
    abreast = max(1, ABREAST // cols)
    _segment_sum[(triton.cdiv(rows, abreast),)](*given, **kind, ENTRIES=entries, ROWS=abreast, COLS=cols)
    if a.numel() > LONG:
        looked_at, wide = min(LOOKED_AT, power_of_two(rows)), min(COLUMNS, cols)
        _long_segment_sum[(triton.cdiv(rows, looked_at), triton.cdiv(d, wide))](
            *given, **kind, ENTRIES=OF_LONG, ROWS=looked_at, COLS=wide, num_warps=8
        )
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
