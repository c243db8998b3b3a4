"""Batches drawn in arrays of fixed size, without asking the host for any: what a GPU can record and play again.

The same batches, by the same rules, as `BatchSampler` draws. Lists of nodes are padded with the node number N, which
stands for no node, until a batch is done. A batch that does not fit the sizes says so, and is not to be used.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.kernels.known import first_unknown
from headtail.kernels.neighbours import Plan, draw_neighbours
from headtail.sampling.batches import EdgeBatches, Positives
from headtail.sampling.fixed_numbering import FixedNumbering
from headtail.sampling.negatives import NEGATIVES, proposals_needed
from headtail.sampling.neighbours import Block, Neighbourhood
from headtail.sampling.places import PairPlaces
from headtail.sampling.sampler import Batch, BatchSampler, Counts


@dataclass(frozen=True)
class Sizes:
    """Room for a batch: its heads, positives, nodes, and (targets, entries) of every block, the output layer first."""

    heads: int
    positives: int
    nodes: int
    blocks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Fixed:
    """A batch, and what the host must know of it.

    Attributes:
        facts: int64 [6]: whether it fits, then its positives, pairs, nodes, and over all layers the expanded nodes and
            the targets.
    """

    batch: Batch
    facts: Tensor


@dataclass(frozen=True)
class Rows:
    """Sparse rows with room for entries that no row owns; `asked` int64 [] is how many entries they should have."""

    row_ptr: Tensor
    capacity: int
    asked: Tensor

    @staticmethod
    def of(lengths: Tensor, capacity: int) -> "Rows":
        """Returns rows of the given lengths; where they do not fit, all are empty."""
        ends = F.pad(lengths.cumsum(0), (1, 0))
        return Rows(ends * (ends[-1] <= capacity), capacity, ends[-1])

    @cached_property
    def place(self) -> Tensor:
        return torch.arange(self.capacity, device=self.row_ptr.device)

    @cached_property
    def row(self) -> Tensor:
        """int64 [capacity], the row of every entry; the last row for those without."""
        found = torch.searchsorted(self.row_ptr[1:], self.place, right=True)
        return found.clamp(max=max(0, self.row_ptr.numel() - 2))

    @property
    def real(self) -> Tensor:
        return self.place < self.row_ptr[-1]

    @property
    def offset(self) -> Tensor:
        """int64 [capacity], the place of every entry in its row."""
        return self.place - self.row_ptr[self.row]


def grouped(keys: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Returns row pointers [size + 1] and an order [n] that groups keys 0 … size − 1; larger ones come last."""
    ordered, order = torch.sort(keys.to(torch.int32), stable=True)
    return torch.searchsorted(ordered, torch.arange(size + 1, dtype=torch.int32, device=keys.device)), order


class FixedSampler:
    """Draws the batches of a sampler, each with fixed sizes.

    Args:
        sampler: says what a batch is; without evidence.
        plans: how neighbours are drawn, the output layer first; None: all of them. Empty without a GNN.
        sizes: room for every batch.
    """

    def __init__(self, sampler: BatchSampler, plans: tuple[Plan | None, ...], sizes: Sizes) -> None:
        self.sampler, self.plans, self.sizes = sampler, plans, sizes
        self.links = sampler.batches.supervision
        self.by_link = isinstance(sampler.batches, EdgeBatches)
        device, bounds = self.links.device, sampler.batches.bounds
        self.slots = int(bounds.diff().max())
        self.numbering = FixedNumbering(sampler.graph.num_nodes, device)
        self.order = torch.zeros(int(bounds[-1]) + self.slots, dtype=torch.int64, device=device)
        self.bounds = bounds.to(device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.tries = proposals_needed(sampler.negatives, sampler.negative_space)

    def begin(self, order: Tensor) -> None:
        """Starts an epoch in which rows, or links, are dealt in that order."""
        self.order[: order.numel()] = order
        self.number.zero_()

    def draw(self, generator: torch.Generator) -> Fixed:
        """Draws the next batch of the epoch. Nothing in it is read by the host."""
        sizes, nothing = self.sizes, self.numbering.nothing
        positives, positive, asked = self._positives()
        negative_row, negative_col, negative_of = self._negatives(positives, positive, generator)
        negative = negative_row != nothing
        ends = torch.cat([positives.row, negative_row]), torch.cat([positives.col, negative_col])
        heads, num_heads = self.numbering.distinct(ends[0], sizes.heads)
        nodes, num_nodes = self.numbering.extend(heads, num_heads, ends[1], sizes.nodes)
        left, right = self.numbering.local(ends[0]), self.numbering.local(ends[1])
        num_positives = asked
        num_pairs = num_positives + negative.sum()
        pairs, of = self._side_by_side(left, right, negative_of, positive, negative)
        fits = (asked <= sizes.positives) & (num_heads <= sizes.heads) & (num_nodes <= sizes.nodes)
        neighbourhood, expanded, targets = None, num_pairs.new_zeros(()), num_pairs.new_zeros(())
        if self.plans:
            scope = (heads, num_heads) if self.sampler.gnn_scope == "rows" else (nodes, num_nodes)
            neighbourhood, expanded, targets, fit = self._neighbourhood(*scope, generator)
            fits = fits & fit
        self.number += 1
        batch = Batch(
            nodes=nodes.clamp(max=nothing - 1),
            num_rows=sizes.heads,
            positive=pairs.pairs,
            negative=pairs.pairs[:, :0],
            negative_of=of,
            neighbourhood=neighbourhood,
            graph=self.sampler.graph,
            counts=Counts(num_nodes, num_positives, num_pairs),
            places=pairs,
        )
        return Fixed(batch, torch.stack([fits.long(), num_positives, num_pairs, num_nodes, expanded, targets]))

    def _positives(self) -> tuple[Positives, Tensor, Tensor]:
        """Returns the positives, padded, which of them are real, and how many there should be."""
        nothing, links = self.numbering.nothing, self.links
        first, last = self.bounds[self.number], self.bounds[self.number + 1]
        slot = torch.arange(self.slots, device=first.device)
        dealt, here = self.order[first + slot], slot < last - first
        if self.by_link:
            row, col = links.row[dealt], links.col[dealt]
            missing = self.sizes.positives - self.slots
            real = F.pad(here, (0, missing))
            row, col = (F.pad(torch.where(here, end, nothing), (0, missing), value=nothing) for end in (row, col))
            return Positives(row, col, None), real, (last - first).squeeze(0)
        start = links.row_ptr[dealt]
        lengths = torch.where(here, links.row_ptr[dealt + 1] - start, 0)
        rows = Rows.of(lengths, self.sizes.positives)
        entry = torch.where(rows.real, start[rows.row] + rows.offset, 0)
        row = torch.where(rows.real, dealt[rows.row], nothing)
        col = torch.where(rows.real, links.col[entry], nothing)
        return Positives(row, col, dealt, (last - first).squeeze(0)), rows.real, rows.asked

    def _negatives(
        self, positives: Positives, positive: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns rows, columns and positives of negatives; what is not real, or found none, has no nodes."""
        sampler, nothing = self.sampler, self.numbering.nothing
        each = torch.arange(positive.numel(), device=positive.device).repeat(sampler.negatives_per_positive)
        # Padding proposes something too: nothing is made of it.
        row, col = (end.clamp(max=nothing - 1) for end in (positives.row, positives.col))
        shown, tries = Positives(row, col, positives.candidates, positives.num_candidates), self.tries
        proposed = NEGATIVES[sampler.negatives](sampler.negative_space, shown, each.repeat(tries), generator)
        rows, cols = (end.view(tries, -1) for end in proposed)
        known = sampler.negative_space.known
        which = first_unknown(known.row_ptr, known.col, rows, cols)
        real, pick = (which >= 0) & positive[each], which.clamp(min=0)[None, :]
        row, col = (torch.where(real, end.gather(0, pick).squeeze(0), nothing) for end in (rows, cols))
        return row, col, each

    def _side_by_side(
        self, left: Tensor, right: Tensor, negative_of: Tensor, positive: Tensor, negative: Tensor
    ) -> tuple[PairPlaces, Tensor]:
        """Returns pairs and what they belong to, with the real positives first, then the real negatives."""
        real = torch.cat([positive, negative])
        size, heads, nodes = real.numel(), self.sizes.heads, self.sizes.nodes
        place = torch.where(real, real.cumsum(0) - 1, size)
        far = torch.iinfo(torch.int32).max
        pairs = torch.full((2, size + 1), far, device=left.device)
        pairs[:, place] = torch.stack([left, right])
        pairs[:, size] = far
        # What is no negative belongs to itself: many that belong to one would be summed up one by one in backward.
        of = torch.arange(size + 1, device=left.device)
        of[place] = torch.cat([of[: positive.numel()], negative_of])
        pairs, of = pairs[:, :size], of[:size]
        by_left, by_right = grouped(pairs[0], heads), grouped(pairs[1], nodes)
        groups = {(0, heads): CSR(*by_left, size), (1, nodes): CSR(*by_right, size)}
        shown = torch.stack([pairs[0].clamp(max=heads - 1), pairs[1].clamp(max=nodes - 1)])
        return PairPlaces(shown, groups), of

    def _neighbourhood(
        self, targets: Tensor, count: Tensor, generator: torch.Generator
    ) -> tuple[Neighbourhood, Tensor, Tensor, Tensor]:
        """Draws all layers; also returns expanded nodes and targets, over all layers, and whether all fits."""
        nothing = self.numbering.nothing
        expanded = targets < nothing
        blocks: list[Block] = []
        all_expanded = all_targets = count.new_zeros(())
        fits = count <= self.sizes.blocks[0][0]
        for layer, (plan, (_, entries)) in enumerate(zip(self.plans, self.sizes.blocks, strict=True)):
            all_expanded, all_targets = all_expanded + expanded.sum(), all_targets + count
            rows, entry, weight, kept = self._edges(targets, expanded, plan, entries, generator)
            fits = fits & (rows.asked <= entries)
            node = self.sampler.graph.adjacency.col[entry]
            if layer == len(self.plans) - 1:  # its columns are nodes: features are read where they are
                blocks.append(Block(CSR(rows.row_ptr, node, nothing, weight), 0, count))
                break
            sources = self.sizes.blocks[layer + 1][0]
            node = torch.where(rows.real, node, nothing)
            below, num_below = self.numbering.extend(targets, count, node, sources)
            fits = fits & (num_below <= sources)
            col = self.numbering.local(node)
            blocks.append(Block(_with_transposed(rows, col, weight, targets.numel(), sources), 0, count))
            # A target stays expanded whatever its own path says; a node that one row keeps is kept.
            seen = torch.zeros(sources + 1, dtype=torch.bool, device=targets.device)
            seen[: targets.numel()] = expanded
            seen.index_fill_(0, torch.where(kept, col, sources), True)
            targets, count, expanded = below, num_below, seen[:sources] & (below < nothing)
        found = Neighbourhood(targets.clamp(max=nothing - 1), blocks[::-1], reads_features=True)
        return found, all_expanded, all_targets, fits

    def _edges(
        self, targets: Tensor, expanded: Tensor, plan: Plan | None, capacity: int, generator: torch.Generator
    ) -> tuple[Rows, Tensor, Tensor, Tensor]:
        """Returns the rows of one layer; entries of the adjacency, weights, and what is kept."""
        graph, nothing = self.sampler.graph, self.numbering.nothing
        real, known = targets < nothing, targets.clamp(max=nothing - 1)
        row_ptr = graph.adjacency.row_ptr
        degrees = row_ptr[known + 1] - row_ptr[known]
        wanted = torch.where(expanded, degrees, 1) if plan is None else plan.lengths(degrees, expanded)
        lengths = torch.where(real, wanted, 0)
        rows = Rows.of(lengths, capacity)
        if plan is None:
            of = known[rows.row]
            entry = torch.where(expanded[rows.row], row_ptr[of] + rows.offset, graph.diagonal[of])
            entry = torch.where(rows.real, entry, 0)
            weight = torch.where(rows.real, 1 / rows.row_ptr.diff()[rows.row], 0.0)
            kept = rows.real & expanded[rows.row]
        else:
            shape, device = (targets.numel(), plan.count), targets.device
            uniform = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
            order = torch.rand(shape, generator=generator, device=device)
            drawn = draw_neighbours(
                row_ptr, graph.diagonal, known, expanded, rows.row_ptr, plan, uniform, order, capacity
            )
            entry, weight, kept = drawn.entry, drawn.weight, drawn.kept
        if graph.relative_weight is not None:
            weight = weight * graph.relative_weight[entry]
        return rows, entry, weight, kept


def _with_transposed(rows: Rows, col: Tensor, weight: Tensor, targets: int, sources: int) -> CSR:
    """Returns a block's adjacency, with its transposed one, which a backward pass sums over, beside it."""
    row_ptr, order = grouped(col, sources)
    adjacency = CSR(rows.row_ptr, col.clamp(max=sources - 1), sources, weight)
    adjacency.__dict__["transposed"] = CSR(row_ptr, rows.row[order], targets, weight[order])
    return adjacency
