"""Sampled neighbourhoods of a batch, layer by layer, behind one interface: full, uniform, bns, auto."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.graph.csr import CSR, all_entries, row_pointers
from headtail.graph.message import MessageGraph
from headtail.kernels.neighbours import Plan
from headtail.kernels.offsets import distinct_offsets
from headtail.registry import Registry
from headtail.sampling.numbering import Numbering

# A message graph is dense if its rows are at least this long on average: of these, a sample would see few.
DENSE_ROWS = 100
# And small if its entries are at most this many, so that every batch can afford all of them.
SMALL_ENTRIES = 2**22


@dataclass(frozen=True)
class Block:
    """One layer of a sampled neighbourhood.

    Attributes:
        adjacency: rows are the layer's targets, columns its sources; the targets are the first sources.
        num_expanded: targets that see neighbours; the other, blocked ones see only themselves.
        count: int64 [], how many targets there are where the adjacency is padded; or float32 [targets], what each
            counts in norms where other ranks have it too; else None.
    """

    adjacency: CSR
    num_expanded: int
    count: Tensor | None = None

    @property
    def num_targets(self) -> int:
        return self.adjacency.num_rows


@dataclass(frozen=True)
class Neighbourhood:
    """Blocks from the innermost layer to the output layer.

    Attributes:
        nodes: int64 [S], what feeds the innermost block: its targets are the first of them.
        reads_features: the innermost block's columns are nodes of the graph, whose features are read where they are;
            then `nodes` are its targets alone.
    """

    nodes: Tensor
    blocks: list[Block]
    reads_features: bool = False


@dataclass(frozen=True)
class Draw:
    """Entries chosen for some rows: owner [K] (position of the row), offset [K] in the row, weight [K], kept [K].

    `kept` neighbours are expanded at the next layer, the others are blocked. Rows in `self_edge` get one
    more edge to themselves, of weight 1.
    """

    owner: Tensor
    offset: Tensor
    weight: Tensor
    kept: Tensor
    self_edge: Tensor | None = None


@dataclass(frozen=True)
class Fanout:
    """How many neighbours to keep: `output` at the output layer, `inner` at the others (None = all).

    `blocked` is the share δ of blocked neighbours among the sampled ones (BNS only).
    """

    output: int | None = 7
    inner: int | None = 2
    blocked: float = 0.5


class NeighbourSampler(ABC):
    """Samples the neighbourhoods that an L-layer encoder needs for a set of target nodes."""

    def __init__(self, fanout: Fanout) -> None:
        self.fanout = fanout

    @abstractmethod
    def draw(self, degrees: Tensor, keep: int | None, innermost: bool, generator: torch.Generator) -> Draw:
        """Chooses neighbours for rows of the given degrees [n] (self-loop included)."""

    def sample(
        self,
        graph: MessageGraph,
        targets: Tensor,
        layers: int,
        numbering: Numbering,
        generator: torch.Generator,
        reads_features: bool = False,
    ) -> Neighbourhood:
        """Samples `layers` blocks for distinct `targets` [T], output layer first, returned innermost first."""
        expanded = torch.ones_like(targets, dtype=torch.bool)
        blocks: list[Block] = []
        for layer in range(layers, 0, -1):
            keep = self.fanout.output if layer == layers else self.fanout.inner
            drawn = self._layer(graph, targets, expanded, keep, layer == 1, generator)
            if layer == 1 and reads_features:
                rows = row_pointers(drawn.owner, targets.numel())
                blocks.append(Block(CSR(rows, drawn.node, graph.num_nodes, drawn.weight), int(expanded.sum())))
                break
            sources = numbering.extend(targets, drawn.node)
            col = numbering.local(drawn.node)
            adjacency = CSR(row_pointers(drawn.owner, targets.numel()), col, sources.numel(), drawn.weight)
            blocks.append(Block(adjacency, int(expanded.sum())))
            expanded_below = torch.zeros_like(sources, dtype=torch.bool)
            # A target stays expanded whatever its own path says, so that heads of high degree keep their
            # neighbours at inner layers; a node that one row keeps and another blocks is kept.
            expanded_below[: targets.numel()] = expanded
            expanded_below[col[drawn.kept]] = True
            targets, expanded = sources, expanded_below
        return Neighbourhood(targets, blocks[::-1], reads_features)

    def plans(self, graph: MessageGraph, layers: int) -> tuple[Plan | None, ...] | None:
        """Returns how many neighbours are drawn at each layer, the output layer first; a plan that is None: all.

        None where more than the output layer sees all neighbours, so that nothing bounds a neighbourhood.
        """
        keeps = [self.fanout.output, *[self.fanout.inner] * (layers - 1)]
        plans = tuple(
            None if keep is None else self.plan(keep, place == layers - 1) for place, keep in enumerate(keeps)
        )
        return None if None in plans[1:] else plans

    def plan(self, keep: int, innermost: bool) -> Plan | None:
        """Returns how `draw` draws where it keeps so many; None: it takes all."""
        return None

    def _layer(
        self,
        graph: MessageGraph,
        targets: Tensor,
        expanded: Tensor,
        keep: int | None,
        innermost: bool,
        generator: torch.Generator,
    ) -> "_Edges":
        """Draws one layer's edges, sorted by target, with rows normalised to Â's scale."""
        pattern = graph.adjacency
        open_rows, closed_rows = expanded.nonzero().squeeze(1), (~expanded).nonzero().squeeze(1)
        draw = self.draw(pattern.degrees[targets[open_rows]], keep, innermost, generator)
        alone = closed_rows if draw.self_edge is None else torch.cat([closed_rows, open_rows[draw.self_edge]])
        owner = torch.cat([open_rows[draw.owner], alone])
        node = targets[open_rows[draw.owner]]
        entry = torch.cat([pattern.row_ptr[node] + draw.offset, graph.diagonal[targets[alone]]])
        weight = torch.cat([draw.weight, draw.weight.new_ones(alone.numel())])
        kept = torch.cat([draw.kept, draw.kept.new_zeros(alone.numel())])
        order = torch.argsort(owner, stable=True)
        owner, entry, weight, kept = owner[order], entry[order], weight[order], kept[order]
        total = torch.zeros(targets.numel(), device=weight.device).index_add_(0, owner, weight)
        weight = weight / total[owner]
        if graph.relative_weight is not None:
            weight = weight * graph.relative_weight[entry]
        return _Edges(owner, pattern.col[entry], weight, kept)


@dataclass(frozen=True)
class _Edges:
    owner: Tensor
    node: Tensor
    weight: Tensor
    kept: Tensor


NEIGHBOURS: Registry[type[NeighbourSampler]] = Registry("neighbour sampler")


@NEIGHBOURS.register("full")
class FullNeighbours(NeighbourSampler):
    """Every neighbour at every layer: exact and, on large graphs, expensive."""

    def draw(self, degrees: Tensor, keep: int | None, innermost: bool, generator: torch.Generator) -> Draw:
        owner, offset = all_entries(degrees)
        return Draw(owner, offset, torch.ones_like(owner, dtype=torch.float32), torch.ones_like(owner) > 0)


@NEIGHBOURS.register("uniform")
class UniformNeighbours(FullNeighbours):
    """A fixed number of random neighbours without replacement, all of them expanded."""

    def draw(self, degrees: Tensor, keep: int | None, innermost: bool, generator: torch.Generator) -> Draw:
        if keep is None:
            return super().draw(degrees, keep, innermost, generator)
        offsets = distinct_offsets(degrees, keep, generator)
        owner, place = (offsets >= 0).nonzero(as_tuple=True)
        offset = offsets[owner, place]
        return Draw(owner, offset, torch.ones_like(owner, dtype=torch.float32), torch.ones_like(owner) > 0)

    def plan(self, keep: int, innermost: bool) -> Plan | None:
        return Plan(keep)


@NEIGHBOURS.register("bns")
class BlockedNeighbours(FullNeighbours):
    """Blocking-based sampling: few neighbours are expanded, more are seen as they are (docs/method.md, 4)."""

    def draw(self, degrees: Tensor, keep: int | None, innermost: bool, generator: torch.Generator) -> Draw:
        if keep is None:
            return super().draw(degrees, keep, innermost, generator)
        ratio, count = self._ratio, keep + round(keep * self._ratio)
        offsets = distinct_offsets(degrees, count, generator)
        owner, place = (offsets >= 0).nonzero(as_tuple=True)
        offset, degree = offsets[owner, place], degrees[owner]
        kept = place < keep
        if innermost:  # nothing is expanded below, so kept and blocked are alike: a plain mean
            return Draw(owner, offset, torch.ones_like(owner, dtype=torch.float32), kept)
        kept_weight = torch.where(degree > count, ratio, ((degree - keep) / keep).clamp(min=1.0))
        weight = torch.where(kept, kept_weight, 1.0).float()
        return Draw(owner, offset, weight, kept, self_edge=(degrees > count).nonzero().squeeze(1))

    def plan(self, keep: int, innermost: bool) -> Plan | None:
        return Plan(keep, round(keep * self._ratio), None if innermost else self._ratio)

    @property
    def _ratio(self) -> float:
        """ρ, blocked per kept."""
        return self.fanout.blocked / (1.0 - self.fanout.blocked)


@NEIGHBOURS.register("auto")
class AutoNeighbours(BlockedNeighbours):
    """All neighbours in a graph that is small and dense, blocking-based sampling in any other."""

    def sample(
        self,
        graph: MessageGraph,
        targets: Tensor,
        layers: int,
        numbering: Numbering,
        generator: torch.Generator,
        reads_features: bool = False,
    ) -> Neighbourhood:
        if small_and_dense(graph.adjacency):
            full = FullNeighbours(self.fanout)
            return full.sample(graph, targets, layers, numbering, generator, reads_features)
        return super().sample(graph, targets, layers, numbering, generator, reads_features)

    def plans(self, graph: MessageGraph, layers: int) -> tuple[Plan | None, ...] | None:
        return None if small_and_dense(graph.adjacency) else super().plans(graph, layers)


def small_and_dense(adjacency: CSR) -> bool:
    entries = adjacency.col.numel()
    return DENSE_ROWS * adjacency.num_rows <= entries <= SMALL_ENTRIES
