"""Unlinked pairs to learn from: any number per positive, known links rejected."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.registry import Registry
from headtail.sampling.batches import Positives

# A known link is redrawn this often; what is still known then is left out (a head linked to almost all nodes).
REDRAWS = 20
# How likely it may be that all proposals for a negative are known links, where proposals are drawn beforehand.
HARDLY_EVER = 1e-12


@dataclass(frozen=True)
class Negatives:
    """Pairs without a known link: row, col [Q] node numbers, and the positive [Q] each one belongs to."""

    row: Tensor
    col: Tensor
    positive: Tensor


@dataclass(frozen=True)
class NegativeSpace:
    """Where negatives are drawn from.

    Attributes:
        known: links that must not be drawn, oriented row → column like the batches.
        rows_are_tails: True in the reversed method, whose rows are tail nodes.
    """

    known: CSR
    rows_are_tails: bool = False

    def any_node(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.randint(self.known.num_rows, (count,), generator=generator, device=generator.device)

    @cached_property
    def known_back(self) -> CSR:
        """The known links, column → row."""
        return self.known.transpose()

    def any_row(self, count: int, positives: Positives, generator: torch.Generator) -> Tensor:
        """Draws rows that cost nothing extra: from the batch's own rows where it has a list of them."""
        if positives.candidates is None:
            return self.any_node(count, generator)
        rows = positives.candidates
        if positives.num_candidates is not None:
            drawn = torch.randint(2**62, (count,), generator=generator, device=rows.device)
            return rows[drawn % positives.num_candidates]
        # A rank's share of a batch may have no rows, and then has no use for any.
        return rows[torch.randint(max(1, rows.numel()), (count,), generator=generator, device=rows.device)]


# Draws the pairs for the given positions [Q] of positives; called again for those that hit a known link.
Draw = Callable[[NegativeSpace, Positives, Tensor, torch.Generator], tuple[Tensor, Tensor]]
NEGATIVES: Registry[Draw] = Registry("negatives")


@NEGATIVES.register("uniform")
def uniform_pairs(
    space: NegativeSpace, positives: Positives, positive: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Rows from the batch's rows, columns from all nodes: over an epoch, uniform over all pairs (for Hits@K)."""
    count = positive.numel()
    return space.any_row(count, positives, generator), space.any_node(count, generator)


@NEGATIVES.register("tail")
def random_tail(
    space: NegativeSpace, positives: Positives, positive: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Each positive keeps its head and gets a random tail (for MRR)."""
    count = positive.numel()
    if space.rows_are_tails:  # the head is the column; its new tail is one of the rows encoded anyway
        return space.any_row(count, positives, generator), positives.col[positive]
    return positives.row[positive], space.any_node(count, generator)


@NEGATIVES.register("popular")
def popular_tail(
    space: NegativeSpace, positives: Positives, positive: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Each positive keeps its row and gets the column of a random link, so that tails are as popular as true ones."""
    links = space.known.col
    pick = torch.randint(links.numel(), (positive.numel(),), generator=generator, device=links.device)
    return positives.row[positive], links[pick]


@NEGATIVES.register("near")
def near_tail(
    space: NegativeSpace, positives: Positives, positive: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Each positive keeps its row and gets a column of another row that shares one with it."""
    row = positives.row[positive]
    node = random_entry(space.known, row, generator)
    node = random_entry(space.known_back, node, generator)
    return row, random_entry(space.known, node, generator)


def random_entry(rows: CSR, nodes: Tensor, generator: torch.Generator) -> Tensor:
    """Returns a random column of each of the rows `nodes`; something of another row for one without."""
    drawn = torch.rand(nodes.numel(), generator=generator, device=nodes.device, dtype=torch.float64)
    entry = rows.row_ptr[nodes] + (drawn * rows.degrees[nodes]).long()
    return rows.col[entry.clamp(max=rows.col.numel() - 1)]


def proposals_needed(kind: str, space: NegativeSpace) -> int:
    """Returns how many proposals for a negative are enough, so that one of them is no known link.

    Where an end is drawn uniformly, the longest row says how likely a known link is at most.
    """
    most = 1 + REDRAWS
    if kind not in ("uniform", "tail"):
        return most
    rows = space.known_back if kind == "tail" and space.rows_are_tails else space.known
    share = (1 + int(rows.degrees.max())) / rows.num_rows  # with the node itself
    if share >= 1:
        return most
    return max(2, min(most, math.ceil(math.log(HARDLY_EVER) / math.log(share))))


def draw_negatives(
    kind: str, space: NegativeSpace, positives: Positives, per_positive: int, generator: torch.Generator
) -> Negatives:
    """Draws `per_positive` negatives for every positive; none is a known link or a self-loop."""
    draw = NEGATIVES[kind]
    positive = torch.arange(positives.row.numel(), device=positives.row.device).repeat(per_positive)
    row, col = draw(space, positives, positive, generator)
    for _ in range(REDRAWS):
        wrong = (space.known.contains(row, col) | (row == col)).nonzero().squeeze(1)
        if wrong.numel() == 0:
            return Negatives(row, col, positive)
        row, col = row.clone(), col.clone()
        row[wrong], col[wrong] = draw(space, positives, positive[wrong], generator)
    right = ~(space.known.contains(row, col) | (row == col))
    return Negatives(row[right], col[right], positive[right])
