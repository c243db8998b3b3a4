"""Draws the neighbours of many rows at once, with the weights of blocking-based sampling (docs/method.md, 4)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.kernels.launch import fused_on
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

    @property
    def longest(self) -> int:
        """No row gets more entries: those that are drawn, and itself."""
        return self.count + 1

    def lengths(self, degrees: Tensor, expanded: Tensor) -> Tensor:
        """Returns the entries that rows of the given degrees get; one that is not expanded sees only itself."""
        drawn = degrees.clamp(max=self.count)
        if self.ratio is not None:
            drawn = drawn + (degrees > self.count)
        return torch.where(expanded, drawn, 1)


@dataclass(frozen=True)
class Adjacency:
    """What neighbours are drawn of: the rows of N nodes, sorted by column, each with a self-loop.

    Attributes:
        row_ptr, col: int64 [N + 1], [entries].
        diagonal: int64 [N], the place of every self-loop.
        relative: float32 [entries], what a drawn entry's weight is multiplied by; None: 1.
    """

    row_ptr: Tensor
    col: Tensor
    diagonal: Tensor
    relative: Tensor | None = None


@dataclass(frozen=True)
class Rows:
    """Where the entries of some rows go.

    Attributes:
        starts: int64 [T + 1]; all rows are empty where they do not fit.
        asked: int64 [], how many entries there should be.
        opened: int64 [], how many of the rows are expanded.
    """

    starts: Tensor
    asked: Tensor
    opened: Tensor


@dataclass(frozen=True)
class Drawn:
    """Entries of the drawn rows.

    Attributes:
        node: int64 [E], neighbours.
        row: int64 [E], which of the rows each is in; the last one for padding.
        weight: float32 [E], they sum to 1 in a row; 0 for padding.
        kept: bool [E], whether the neighbour is expanded below.
    """

    node: Tensor
    row: Tensor
    weight: Tensor
    kept: Tensor


def laid_out(adjacency: Adjacency, targets: Tensor, expanded: Tensor, plan: Plan | None, capacity: int) -> Rows:
    """Returns where the neighbours of the rows `targets` [T] go, padded with N; plan None: all of them.

    Args:
        expanded: bool [T], rows that see neighbours; no padding is among them.
        capacity: entries that there is room for.
    """
    if fused_on(targets.device):
        from headtail.kernels import neighbours_triton

        return Rows(*neighbours_triton.laid_out(adjacency, targets, expanded, plan, capacity))
    nothing = adjacency.row_ptr.numel() - 1
    known = targets.clamp(max=nothing - 1)
    degrees = adjacency.row_ptr[known + 1] - adjacency.row_ptr[known]
    wanted = torch.where(expanded, degrees, 1) if plan is None else plan.lengths(degrees, expanded)
    ends = F.pad(torch.where(targets < nothing, wanted, 0).cumsum(0), (1, 0))
    return Rows(ends * (ends[-1] <= capacity), ends[-1], expanded.sum())


def draw_neighbours(
    adjacency: Adjacency,
    targets: Tensor,
    expanded: Tensor,
    starts: Tensor,
    plan: Plan,
    uniform: Tensor,
    order: Tensor,
    capacity: int,
    padding: int,
) -> Drawn:
    """Draws distinct entries of the rows `targets` [T], kept ones first, then blocked ones, then the row itself.

    Args:
        expanded: bool [T], rows that see neighbours.
        starts: int64 [T + 1], where the entries of each row go, of `laid_out`; padding has none.
        uniform: float64 [T, plan.count], what is drawn.
        order: float32 [T, plan.count], in which order.
        capacity: entries that there is room for.
        padding: the node of those that no row owns.
    """
    if plan.count <= MOST_DRAWN and fused_on(targets.device):
        from headtail.kernels import neighbours_triton

        return Drawn(
            *neighbours_triton.draw(adjacency, targets, expanded, starts, plan, uniform, order, capacity, padding)
        )
    row_ptr, known = adjacency.row_ptr, targets.clamp(max=adjacency.row_ptr.numel() - 2)
    length = starts.diff()
    degree = torch.where(expanded & (length > 0), row_ptr[known + 1] - row_ptr[known], 0)
    offset = floyd(degree, uniform, order)
    place = torch.arange(plan.count, device=targets.device).expand_as(offset)
    keep = place < plan.keep
    heavy = torch.ones_like(degree, dtype=torch.float32)
    if plan.ratio is not None:
        heavy = torch.where(degree > plan.count, plan.ratio, ((degree - plan.keep) / plan.keep).clamp(min=1.0)).float()
    drawn = degree.clamp(max=plan.count)
    alone = (length > drawn).float()
    total = degree.clamp(max=plan.keep) * heavy + (drawn - plan.keep).clamp(min=0) + alone
    each = torch.where(keep, heavy[:, None], 1.0) / total[:, None]
    entry = torch.zeros(capacity + 1, dtype=torch.int64, device=targets.device)
    weight = torch.zeros(capacity + 1, device=targets.device)
    kept = torch.zeros(capacity + 1, dtype=torch.bool, device=targets.device)
    target = torch.where(offset >= 0, starts[:-1, None] + place, capacity).view(-1)
    entry[target] = (row_ptr[known][:, None] + offset).view(-1)
    weight[target] = each.view(-1)
    kept[target] = keep.reshape(-1)
    itself = torch.where(alone > 0, starts[1:] - 1, capacity)
    entry[itself] = adjacency.diagonal[known]
    weight[itself] = 1 / total
    row, real = rows_of_entries(starts, capacity)
    return _drawn(adjacency, row, real, entry[:capacity], weight[:capacity], kept[:capacity], padding)


def all_neighbours(
    adjacency: Adjacency, targets: Tensor, expanded: Tensor, starts: Tensor, capacity: int, padding: int
) -> Drawn:
    """Lists all entries of the rows `targets` [T], of equal weight; all are kept. The rest is as in `draw_neighbours`.

    A row that is not expanded sees only itself.
    """
    if fused_on(targets.device):
        from headtail.kernels import neighbours_triton

        return Drawn(*neighbours_triton.list_all(adjacency, targets, expanded, starts, capacity, padding))
    row, real = rows_of_entries(starts, capacity)
    of = targets.clamp(max=adjacency.row_ptr.numel() - 2)[row]
    offset = torch.arange(capacity, device=targets.device) - starts[row]
    entry = torch.where(expanded[row], adjacency.row_ptr[of] + offset, adjacency.diagonal[of])
    weight = torch.where(real, 1 / starts.diff()[row], 0.0)
    return _drawn(adjacency, row, real, torch.where(real, entry, 0), weight, real & expanded[row], padding)


def rows_of_entries(starts: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
    """Returns int64, bool [capacity]: the row of every entry, the last one for those without; and which have one."""
    place = torch.arange(capacity, device=starts.device)
    row = torch.searchsorted(starts[1:], place, right=True)
    return row.clamp(max=max(0, starts.numel() - 2)), place < starts[-1]


def _drawn(
    adjacency: Adjacency, row: Tensor, real: Tensor, entry: Tensor, weight: Tensor, kept: Tensor, padding: int
) -> Drawn:
    if adjacency.relative is not None:
        weight = weight * adjacency.relative[entry]
    return Drawn(torch.where(real, adjacency.col[entry], padding), row, weight, kept)
