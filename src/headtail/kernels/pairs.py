"""Lines up the pairs of a batch, the real ones first, as places among its nodes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.kernels.launch import fused_on


@dataclass(frozen=True)
class LinedUp:
    """Pairs, with the real positives first, then the real negatives, then padding.

    Attributes:
        shown: int64 [2, P], places of both ends; padding has the last places.
        keys: int32 [2, P], the same, but the number of places for padding and for what has no place.
        of: int64 [P], the positive that a negative belongs to; everything else belongs to itself.
        total: int64 [], how many are real.
    """

    shown: Tensor
    keys: Tensor
    of: Tensor
    total: Tensor


def line_up(place: Tensor, ends: Tensor, period: int, count: Tensor, heads: int, nodes: int) -> LinedUp:
    """Lines up pairs, of which the first `period` are room for positives.

    Args:
        place: int32 [N + 1], where the nodes are; N stands for no node.
        ends: int64 [2, P], nodes: positives, then negatives, whose positives repeat with the period.
        count: int64 [], the positives that are real; a negative is real if it has nodes.
        heads, nodes: how many places there are on the left and on the right.
    """
    if fused_on(ends.device):
        from headtail.kernels import pairs_triton

        return LinedUp(*pairs_triton.line_up(place, ends, period, count, heads, nodes))
    size, device = ends.shape[1], ends.device
    itself = torch.arange(size, device=device)
    real = torch.where(itself < period, itself < count, ends[0] < place.numel() - 1)
    before = real.cumsum(0)
    total = before[-1]
    to = torch.where(real, before - 1, total + itself - before)
    keys = torch.empty((2, size), dtype=torch.int32, device=device)
    for side, limit in enumerate((heads, nodes)):
        keys[side, to] = torch.where(real, place[ends[side]].clamp(max=limit), limit)
    of = torch.empty_like(itself)
    of[to] = torch.where(real, itself % period, to)
    shown = torch.stack([keys[0].clamp(max=heads - 1), keys[1].clamp(max=nodes - 1)]).long()
    return LinedUp(shown, keys, of, total)
