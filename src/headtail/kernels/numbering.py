"""Lists the distinct nodes of a batch without sorting, and writes down the place of each."""

import torch
from torch import Tensor

from headtail.kernels.launch import fused_on

# Rows of marks start at multiples of it, so that a thread reads several at once.
ALIGNED = 128


def marks_shape(num_nodes: int) -> tuple[int, int]:
    return 2, -(-(num_nodes + 1) // ALIGNED) * ALIGNED


def extend_list(
    place: Tensor, marks: Tensor, first: Tensor, count: Tensor, others: Tensor, capacity: int
) -> tuple[Tensor, Tensor]:
    """Returns `first`, then the nodes of `others` that are not in it, ascending, and how many there are.

    Args:
        place: int32 [N + 1], set to the place of each listed node; to `capacity` for N, which stands for no node.
        marks: int8 of the shape that `marks_shape` says, a workspace: zeros before and after.
        first: int64 [F], distinct nodes, `count` of them; then padding with N.
        others: int64 [K], nodes and padding.
        capacity: how long the returned list is, F or more. If there are more nodes than that, the rest is left out.
    """
    if fused_on(place.device):
        from headtail.kernels import numbering_triton

        return numbering_triton.extend_list(place, marks, first, count, others, capacity)
    nothing = place.numel() - 1
    new = marks[0, : nothing + 1].index_fill_(0, others, 1).index_fill_(0, first, 0)
    new[nothing] = 0
    rank = new.cumsum(0, dtype=torch.int32)
    place.copy_(torch.where(new > 0, (rank - 1 + count).clamp(max=capacity), place))
    place[first] = torch.arange(first.numel(), dtype=torch.int32, device=place.device)
    place[nothing] = capacity
    nodes = torch.full((capacity + 1,), nothing, device=place.device)
    nodes[: first.numel()] = first
    nodes[place[others].long()] = others
    new.zero_()
    return nodes[:capacity], rank[-1] + count
