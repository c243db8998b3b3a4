"""The Triton kernels behind `pairs`: real pairs are counted, then every pair goes where it belongs."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.scan_triton import STEP, sum_before

PAIRS = 512


@triton.jit
def _real(end_ptr, pair, count_ptr, size, period, nothing):
    inside = pair < size
    negative = tl.load(end_ptr + pair, inside & (pair >= period), nothing) < nothing
    return ((pair < period) & (pair < tl.load(count_ptr))) | negative


@triton.jit
def _count(end_ptr, count_ptr, sums_ptr, size, period, nothing, BLOCK: tl.constexpr):
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = _real(end_ptr, pair, count_ptr, size, period, nothing)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(real.to(tl.int64), 0))


@triton.jit
def _line_up(
    place_ptr, end_ptr, count_ptr, sums_ptr, shown_ptr, key_ptr, of_ptr, total_ptr,
    size, period, heads, nodes, nothing, blocks, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    pair = block * BLOCK + tl.arange(0, BLOCK)
    inside = pair < size
    real = _real(end_ptr, pair, count_ptr, size, period, nothing)
    total = sum_before(sums_ptr, blocks, STEP)
    upto = sum_before(sums_ptr, block, STEP) + tl.cumsum(real.to(tl.int64), 0)
    to = tl.where(real, upto - 1, total + pair - upto)
    for side in tl.static_range(2):
        limit = heads if side == 0 else nodes
        node = tl.load(end_ptr + side * size + pair, inside & real, nothing)
        key = tl.minimum(tl.load(place_ptr + node, inside & real, limit), limit)
        tl.store(key_ptr + side * size + to, key, inside)
        tl.store(shown_ptr + side * size + to, tl.minimum(key, limit - 1).to(tl.int64), inside)
    tl.store(of_ptr + to, tl.where(real, pair % period, to), inside)
    if block == 0:
        tl.store(total_ptr, total)


def line_up(
    place: Tensor, ends: Tensor, period: int, count: Tensor, heads: int, nodes: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns what `pairs.LinedUp` is made of."""
    size, device, nothing = ends.shape[1], ends.device, place.numel() - 1
    blocks = triton.cdiv(size, PAIRS)
    sums = torch.empty(blocks, dtype=torch.int64, device=device)
    shown = torch.empty(2, size, dtype=torch.int64, device=device)
    keys = torch.empty(2, size, dtype=torch.int32, device=device)
    of = torch.empty(size, dtype=torch.int64, device=device)
    total = torch.empty((), dtype=torch.int64, device=device)
    _count[(blocks,)](ends, count, sums, size, period, nothing, BLOCK=PAIRS)
    _line_up[(blocks,)](
        place, ends, count, sums, shown, keys, of, total,
        size, period, heads, nodes, nothing, blocks, BLOCK=PAIRS, STEP=STEP,
    )  # fmt: skip
    return shown, keys, of, total
