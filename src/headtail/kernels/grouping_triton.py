"""The Triton kernels behind `grouping`: a stable radix sort that looks only at the bits that keys have.

Every pass counts the digits of every block, sums the counts up, digit by digit and then block by block, and puts every
key where its digit begins, after those of earlier blocks and after equal ones before it in its own block, which are
found by sorting the block. Nothing depends on which program runs first.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

# Keys that one program works on, its warps, and the bits of a digit.
KEYS, WARPS, LEAST_BITS, MOST_BITS = 512, 4, 5, 9
ROWS = 256


@triton.jit
def _count(key_ptr, count_ptr, n, blocks, shift, KEYS: tl.constexpr, BINS: tl.constexpr):
    block, part = tl.program_id(0), tl.program_id(1)
    place = block * KEYS + tl.arange(0, KEYS)
    digit = (tl.load(key_ptr + part * n + place, place < n, 0) >> shift) & (BINS - 1)
    counts = tl.histogram(digit, BINS, mask=place < n)
    tl.store(count_ptr + (part * BINS + tl.arange(0, BINS)) * blocks + block, counts)


@triton.jit
def _larger(one, other):
    return tl.maximum(one, other)


@triton.jit
def _scatter(
    key_ptr, value_ptr, ends_ptr, new_key_ptr, new_value_ptr, row_ptr, weight_ptr, new_row_ptr,
    new_weight_ptr, n, blocks, shift, FIRST: tl.constexpr, TRANSPOSES: tl.constexpr, KEYS: tl.constexpr,
    BINS: tl.constexpr,
):  # fmt: skip
    block, part = tl.program_id(0), tl.program_id(1)
    position = tl.arange(0, KEYS)
    place = block * KEYS + position
    digit = (tl.load(key_ptr + part * n + place, place < n, 0) >> shift) & (BINS - 1)
    # Sorted by digit and then by where they were; what there is not comes last.
    ordered = tl.sort(tl.where(place < n, digit, BINS) * KEYS + position)
    digit = ordered // KEYS
    place = block * KEYS + ordered % KEYS
    inside = place < n
    fresh = (position == 0) | (digit != tl.gather(digit, tl.maximum(position - 1, 0), 0))
    rank = position - tl.associative_scan(tl.where(fresh, position, 0), 0, _larger)
    key = tl.load(key_ptr + part * n + place, inside, 0)
    count = (part * BINS + digit) * blocks + block
    to = tl.load(ends_ptr + count - 1, inside & (count > 0), 0) + rank
    if FIRST:
        value = place
    else:
        value = tl.load(value_ptr + part * n + place, inside, 0)
    tl.store(new_key_ptr + to, key, inside)
    if TRANSPOSES:
        tl.store(new_row_ptr + to, tl.load(row_ptr + value, inside, 0), inside)
        tl.store(new_weight_ptr + to, tl.load(weight_ptr + value, inside, 0.0), inside)
    else:
        tl.store(new_value_ptr + to, value, inside)


@triton.jit
def _begins(key_ptr, begin_ptr, n, rows, ROWS: tl.constexpr):
    """Where every row begins among sorted keys, found by halving."""
    part = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    low = tl.zeros([ROWS], tl.int32)
    high = tl.where(inside, n, 0)
    while tl.max(high - low, 0) > 0:
        middle = (low + high) // 2
        go = low < high
        right = tl.load(key_ptr + part * n + middle, go, 0) < row
        low = tl.where(go & right, middle + 1, low)
        high = tl.where(go & (right == 0), middle, high)
    tl.store(begin_ptr + part * rows + row, low.to(tl.int64), inside)


def grouped(keys: Tensor, sizes: tuple[int, ...]) -> list[tuple[Tensor, Tensor]]:
    """Returns what `grouping.grouped` returns."""
    order = torch.empty(keys.shape, dtype=torch.int64, device=keys.device)
    begins = _sorted(keys, sizes, order, None)
    return [(begins[i, : size + 1], order[i]) for i, size in enumerate(sizes)]


def transposed(keys: Tensor, size: int, row: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns what `grouping.transposed` returns."""
    new_row, new_weight = torch.empty_like(row), torch.empty_like(weight)
    begins = _sorted(keys[None], (size,), None, (row, weight, new_row, new_weight))
    return begins[0], new_row, new_weight


def _sorted(
    keys: Tensor, sizes: tuple[int, ...], order: Tensor | None, carried: tuple[Tensor, Tensor, Tensor, Tensor] | None
) -> Tensor:
    """Sorts lists of keys; puts into place where they were, or what lies there; returns where rows begin."""
    (parts, n), device = keys.shape, keys.device
    passes = max(1, -(-max(sizes).bit_length() // MOST_BITS))
    bits = max(LEAST_BITS, -(-max(sizes).bit_length() // passes))
    blocks, bins = max(1, triton.cdiv(n, KEYS)), 2**bits
    counts = torch.empty(parts * bins * blocks, dtype=torch.int32, device=device)
    value = None
    for step in range(passes):
        last = step == passes - 1
        new_keys = torch.empty_like(keys)
        new_value = order if last else torch.empty_like(keys)
        _count[(blocks, parts)](keys, counts, n, blocks, step * bits, KEYS=KEYS, BINS=bins)
        _scatter[(blocks, parts)](
            keys, value, counts.cumsum(0, dtype=torch.int32), new_keys, new_value,
            *(carried if last and carried is not None else (None,) * 4), n, blocks, step * bits,
            FIRST=step == 0, TRANSPOSES=last and carried is not None, KEYS=KEYS, BINS=bins, num_warps=WARPS,
        )  # fmt: skip
        keys, value = new_keys, new_value
    rows = max(sizes) + 1
    begins = torch.empty(parts, rows, dtype=torch.int64, device=device)
    _begins[(triton.cdiv(rows, ROWS), parts)](keys, begins, n, rows, ROWS=ROWS)
    return begins
