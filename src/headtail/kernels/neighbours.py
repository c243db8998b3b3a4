"""Draws the neighbours of many rows at once, with the weights of blocking-based sampling (docs/method.md, 4)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.kernels.launch import engine, has_triton, interpreted
from headtail.kernels.offsets import MOST_DRAWN, floyd


@dataclass(frozen=True)
class Plan:
    """How many neighbours of a row are drawn: `keep` are expanded below, `blocked` more are seen as they are.

    Attributes:
        ratio: what a kept neighbour of a long row weighs, beside blocked ones and the row itself, which such a row
            then sees once more. None: all weigh the same, and a long row is no exception.
    """

    keep: int
    blocked: int = 0
    ratio: float | None = None

    @property
    def count(self) -> int:
        return self.keep + self.blocked

    def lengths(self, degrees: Tensor, expanded: Tensor) -> Tensor:
        """Returns the entries that rows of the given degrees get; one that is not expanded sees only itself."""
        drawn = degrees.clamp(max=self.count)
        if self.ratio is not None:
            drawn = drawn + (degrees > self.count)
        return torch.where(expanded, drawn, 1)


@dataclass(frozen=True)
class Drawn:
    """Entries of the drawn rows: places `entry` [E] in the adjacency, weights [E] that sum to 1 in a row, kept [E]."""

    entry: Tensor
    weight: Tensor
    kept: Tensor


def draw_neighbours(
    row_ptr: Tensor,
    diagonal: Tensor,
    targets: Tensor,
    expanded: Tensor,
    starts: Tensor,
    plan: Plan,
    uniform: Tensor,
    order: Tensor,
    capacity: int,
) -> Drawn:
    """Draws distinct entries of the rows `targets` [T], kept ones first, then blocked ones, then the row itself.

    Args:
        row_ptr, diagonal: of the adjacency: where its rows start [N + 1], and the place of every self-loop [N].
        expanded: bool [T], rows that see neighbours.
        starts: int64 [T + 1], where the entries of each row go: sums of `plan.lengths`; padding has none.
        uniform: float64 [T, plan.count], what is drawn.
        order: float32 [T, plan.count], in which order.
        capacity: entries that there is room for; those that no row owns are 0.
    """
    if plan.count <= MOST_DRAWN and (interpreted() or (engine(targets.device) and has_triton())):
        from headtail.kernels import neighbours_triton

        return Drawn(
            *neighbours_triton.draw(row_ptr, diagonal, targets, expanded, starts, plan, uniform, order, capacity)
        )
    length = starts.diff()
    degree = torch.where(expanded & (length > 0), row_ptr[targets + 1] - row_ptr[targets], 0)
    offset = floyd(degree, uniform, order)
    place = torch.arange(plan.count, device=targets.device).expand_as(offset)
    kept = place < plan.keep
    heavy = torch.ones_like(degree, dtype=torch.float32)
    if plan.ratio is not None:
        heavy = torch.where(degree > plan.count, plan.ratio, ((degree - plan.keep) / plan.keep).clamp(min=1.0)).float()
    drawn = degree.clamp(max=plan.count)
    alone = (length > drawn).float()
    total = degree.clamp(max=plan.keep) * heavy + (drawn - plan.keep).clamp(min=0) + alone
    weight = torch.where(kept, heavy[:, None], 1.0) / total[:, None]
    found = Drawn(
        torch.zeros(capacity + 1, dtype=torch.int64, device=targets.device),
        torch.zeros(capacity + 1, device=targets.device),
        torch.zeros(capacity + 1, dtype=torch.bool, device=targets.device),
    )
    target = torch.where(offset >= 0, starts[:-1, None] + place, capacity).view(-1)
    found.entry[target] = (row_ptr[targets][:, None] + offset).view(-1)
    found.weight[target] = weight.view(-1)
    found.kept[target] = kept.reshape(-1)
    itself = torch.where(alone > 0, starts[1:] - 1, capacity)
    found.entry[itself] = diagonal[targets]
    found.weight[itself] = 1 / total
    return Drawn(found.entry[:capacity], found.weight[:capacity], found.kept[:capacity])
