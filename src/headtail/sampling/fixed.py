"""Batches drawn in arrays of fixed size, without asking the host for any: what a GPU can record and play again.

The same batches, by the same rules, as `BatchSampler` draws. Lists of nodes are padded with the node number N, which
stands for no node, until a batch is done. A batch that does not fit the sizes says so, and is not to be used.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.kernels.deal import Dealt, deal_rows
from headtail.kernels.grouping import grouped, transposed
from headtail.kernels.known import first_unknown
from headtail.kernels.links import linked
from headtail.kernels.neighbours import Adjacency, Drawn, Plan, Rows, all_neighbours, draw_neighbours, laid_out
from headtail.kernels.offsets import random_numbers
from headtail.kernels.pairs import line_up
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
class Layers:
    """The drawn layers.

    Attributes:
        targets, opened: int64 [] of every layer, its targets and those that see neighbours.
        needs: int64 [], the targets and entries that there must be room for, the output layer first.
    """

    neighbourhood: Neighbourhood | None
    targets: list[Tensor]
    opened: list[Tensor]
    needs: list[Tensor]


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
        graph = sampler.graph
        self.adjacency = Adjacency(graph.adjacency.row_ptr, graph.adjacency.col, graph.diagonal, graph.relative_weight)
        below = [room for block in sizes.blocks[: len(plans)] for room in block]
        self.rooms = torch.tensor([sizes.positives, sizes.heads, sizes.nodes, *below], device=device)
        self.none = torch.zeros((), dtype=torch.int64, device=device)
        # The positive of every proposal.
        each = torch.arange(sizes.positives, device=device)
        self.proposed_for = each.repeat(sampler.negatives_per_positive * self.tries)

    def begin(self, order: Tensor) -> None:
        """Starts an epoch in which rows, or links, are dealt in that order."""
        self.order[: order.numel()] = order
        self.number.zero_()

    def draw(self, generator: torch.Generator) -> Fixed:
        """Draws the next batch of the epoch. Nothing in it is read by the host."""
        sizes, numbering = self.sizes, self.numbering
        dealt = self._deal_links() if self.by_link else self._deal_rows()
        ends = torch.cat([dealt.ends, self._negatives(dealt, generator)], dim=1)
        heads, num_heads = numbering.distinct(ends[0], sizes.heads)
        nodes, num_nodes = numbering.extend(heads, num_heads, ends[1], sizes.nodes)
        pairs = line_up(numbering.place, ends, sizes.positives, dealt.count, sizes.heads, sizes.nodes)
        by_left, by_right = grouped(pairs.keys, (sizes.heads, sizes.nodes))
        size = ends.shape[1]
        groups = {(0, sizes.heads): CSR(*by_left, size), (1, sizes.nodes): CSR(*by_right, size)}
        layers = Layers(None, [], [], [])
        if self.plans:
            scope = (heads, num_heads) if self.sampler.gnn_scope == "rows" else (nodes, num_nodes)
            layers = self._layers(*scope, generator)
        self.number += 1
        needs = [dealt.asked, num_heads, num_nodes, *layers.needs]
        batch = Batch(
            nodes=nodes.clamp(max=numbering.nothing - 1),
            num_rows=sizes.heads,
            positive=pairs.shown,
            negative=pairs.shown[:, :0],
            negative_of=pairs.of,
            neighbourhood=layers.neighbourhood,
            graph=self.sampler.graph,
            counts=Counts(num_nodes, dealt.asked, pairs.total),
            places=PairPlaces(pairs.shown, groups),
        )
        fits = (torch.stack(needs) <= self.rooms).all().long()
        work = [torch.stack(counts).sum() if counts else self.none for counts in (layers.opened, layers.targets)]
        return Fixed(batch, torch.stack([fits, dealt.asked, pairs.total, num_nodes, *work]))

    def _deal_rows(self) -> Dealt:
        links = self.links
        return deal_rows(
            links.row_ptr, links.col, self.order, self.bounds, self.number, self.slots, self.sizes.positives
        )

    def _deal_links(self) -> Dealt:
        first, last = self.bounds[self.number], self.bounds[self.number + 1]
        slot = torch.arange(self.slots, device=first.device)
        dealt, count = self.order[first + slot], last - first
        links = torch.stack([self.links.row[dealt], self.links.col[dealt]])
        ends = torch.where(slot < count, links, self.numbering.nothing)
        ends = F.pad(ends, (0, self.sizes.positives - self.slots), value=self.numbering.nothing)
        return Dealt(ends, dealt, count.squeeze(0), count.squeeze(0), count.squeeze(0))

    def _negatives(self, dealt: Dealt, generator: torch.Generator) -> Tensor:
        """Returns rows and columns [2, Q] of negatives; what is not real, or found none, has no nodes."""
        sampler, nothing = self.sampler, self.numbering.nothing
        # Padding proposes something too: nothing is made of it.
        row, col = dealt.ends.clamp(max=nothing - 1)
        shown = Positives(row, col, None) if self.by_link else Positives(row, col, dealt.rows, dealt.num_rows)
        proposed = NEGATIVES[sampler.negatives](sampler.negative_space, shown, self.proposed_for, generator)
        rows, cols = (end.view(self.tries, -1) for end in proposed)
        known = sampler.negative_space.known
        return first_unknown(known.row_ptr, known.col, rows, cols, self.sizes.positives, dealt.count, nothing)

    def _layers(self, targets: Tensor, count: Tensor, generator: torch.Generator) -> Layers:
        """Draws all layers."""
        nothing = self.numbering.nothing
        expanded = targets < nothing
        blocks: list[Block] = []
        found = Layers(None, [], [], [])
        for layer, (plan, (_, entries)) in enumerate(zip(self.plans, self.sizes.blocks, strict=True)):
            innermost = layer == len(self.plans) - 1
            longest = None if plan is None else plan.longest
            rows = laid_out(self.adjacency, targets, expanded, plan, entries)
            drawn = self._drawn(targets, expanded, rows, plan, entries, 0 if innermost else nothing, generator)
            found.targets.append(count)
            found.opened.append(rows.opened)
            found.needs.extend([count, rows.asked])
            if innermost:  # its columns are nodes: features are read where they are
                blocks.append(Block(CSR(rows.starts, drawn.node, nothing, drawn.weight, longest), 0, count))
                break
            sources = self.sizes.blocks[layer + 1][0]
            below, num_below = self.numbering.extend(targets, count, drawn.node, sources)
            link = linked(self.numbering.place, drawn.node, drawn.kept, expanded, sources)
            adjacency = CSR(rows.starts, link.col, sources, drawn.weight, longest)
            # What a backward pass sums over.
            row_ptr, row, weight = transposed(link.keys, sources, drawn.row, drawn.weight)
            adjacency.__dict__["transposed"] = CSR(row_ptr, row, targets.numel(), weight)
            blocks.append(Block(adjacency, 0, count))
            targets, count, expanded = below, num_below, link.expanded
        nodes = targets.clamp(max=nothing - 1)
        return replace(found, neighbourhood=Neighbourhood(nodes, blocks[::-1], reads_features=True))

    def _drawn(
        self,
        targets: Tensor,
        expanded: Tensor,
        rows: Rows,
        plan: Plan | None,
        capacity: int,
        padding: int,
        generator: torch.Generator,
    ) -> Drawn:
        if plan is None:
            return all_neighbours(self.adjacency, targets, expanded, rows.starts, capacity, padding)
        uniform, order = random_numbers(targets.numel(), plan.count, generator)
        return draw_neighbours(self.adjacency, targets, expanded, rows.starts, plan, uniform, order, capacity, padding)
