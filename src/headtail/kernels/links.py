"""Neighbours as places among the nodes of the layer below, and which of these are expanded there."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.kernels.launch import fused_on


@dataclass(frozen=True)
class Linked:
    """What a layer's entries lead to.

    Attributes:
        col: int64 [E], the source of each entry; the last one for padding.
        keys: int32 [E], the same, but the number of sources for padding.
        expanded: bool [sources].
    """

    col: Tensor
    keys: Tensor
    expanded: Tensor


def linked(place: Tensor, node: Tensor, kept: Tensor, expanded: Tensor, sources: int) -> Linked:
    """Finds the sources of a layer's entries.

    Args:
        place: int32 [N + 1], where nodes are among the sources; N stands for no node.
        node, kept: int64, bool [E], the neighbours, and which are expanded below.
        expanded: bool [T], targets that are: the first sources. They stay so whatever their own path says, and a node
            that one row keeps is kept.
    """
    if fused_on(place.device):
        from headtail.kernels import links_triton

        return Linked(*links_triton.linked(place, node, kept, expanded, sources))
    keys = place[node].clamp(max=sources)
    seen = torch.zeros(sources + 1, dtype=torch.bool, device=place.device)
    seen[: expanded.numel()] = expanded
    seen.index_fill_(0, torch.where(kept, keys, sources).long(), True)
    return Linked(keys.long().clamp(max=sources - 1), keys, seen[:sources])
