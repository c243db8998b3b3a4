"""The Triton kernels behind `numbering`: nodes are marked, marks are counted, and what is marked is listed."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from headtail.kernels.scan_triton import STEP, sum_before

# Listed nodes, and nodes of the graph, that one program works on.
LISTED, NODES = 512, 4096


@triton.jit
def _mark(
    first_ptr, others_ptr, mark_ptr, place_ptr, node_ptr, num_first, num_others, capacity, nothing, stride,
    BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    node = tl.load(first_ptr + i, i < num_first, nothing).to(tl.int64)
    tl.store(node_ptr + i, node, i < capacity)
    tl.store(place_ptr + node, i, node < nothing)
    tl.store(mark_ptr + stride + node, 1, node < nothing)
    other = tl.load(others_ptr + i, i < num_others, nothing).to(tl.int64)
    tl.store(mark_ptr + other, 1, other < nothing)
    if tl.program_id(0) == 0:
        tl.store(place_ptr + nothing, capacity)


@triton.jit
def _count(mark_ptr, sums_ptr, stride, BLOCK: tl.constexpr):
    node = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    marked = tl.load(mark_ptr + node, node < stride, 0) != 0
    first = tl.load(mark_ptr + stride + node, node < stride, 0) != 0
    tl.store(sums_ptr + tl.program_id(0), tl.sum((marked & (first == 0)).to(tl.int32), 0).to(tl.int64))


@triton.jit
def _list(
    mark_ptr, sums_ptr, count_ptr, place_ptr, node_ptr, found_ptr, capacity, stride,
    BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Lists what is marked, and clears the marks."""
    block = tl.program_id(0)
    node = block * BLOCK + tl.arange(0, BLOCK)
    marked = tl.load(mark_ptr + node, node < stride, 0) != 0
    first = tl.load(mark_ptr + stride + node, node < stride, 0) != 0
    new = (marked & (first == 0)).to(tl.int32)
    before = tl.load(count_ptr) + sum_before(sums_ptr, block, STEP)
    place = before + tl.cumsum(new, 0) - 1
    tl.store(place_ptr + node, tl.minimum(place, capacity).to(tl.int32), new > 0)
    tl.store(node_ptr + place, node.to(tl.int64), (new > 0) & (place < capacity))
    clean = tl.zeros([BLOCK], tl.int8)
    tl.store(mark_ptr + node, clean, node < stride)
    tl.store(mark_ptr + stride + node, clean, node < stride)
    if block == tl.num_programs(0) - 1:
        tl.store(found_ptr, before + tl.sum(new, 0))


def extend_list(
    place: Tensor, marks: Tensor, first: Tensor, count: Tensor, others: Tensor, capacity: int
) -> tuple[Tensor, Tensor]:
    """Returns what `numbering.extend_list` returns."""
    nothing, device = place.numel() - 1, place.device
    nodes = torch.empty(capacity, dtype=torch.int64, device=device)
    found = torch.empty((), dtype=torch.int64, device=device)
    stride = marks.shape[1]
    blocks = triton.cdiv(stride, NODES)
    sums = torch.empty(blocks, dtype=torch.int64, device=device)
    first, others = first.contiguous(), others.contiguous()
    most = max(1, capacity, others.numel())
    _mark[(triton.cdiv(most, LISTED),)](
        first, others, marks, place, nodes, first.numel(), others.numel(), capacity, nothing, stride, BLOCK=LISTED
    )
    _count[(blocks,)](marks, sums, stride, BLOCK=NODES, num_warps=8)
    _list[(blocks,)](
        marks, sums, count, place, nodes, found, capacity, stride, BLOCK=NODES, STEP=STEP, num_warps=8
    )  # fmt: skip
    return nodes, found
