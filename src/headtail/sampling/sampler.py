"""A training batch: positives, negatives and sampled neighbourhoods, with nodes deduplicated."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from headtail.graph.message import MessageGraph
from headtail.kernels.neighbours import Plan
from headtail.ranks import ALONE, Ranks
from headtail.sampling.batches import LinkBatches, Positives
from headtail.sampling.evidence import BatchEvidence
from headtail.sampling.negatives import Negatives, NegativeSpace, draw_negatives
from headtail.sampling.neighbours import Neighbourhood, NeighbourSampler
from headtail.sampling.numbering import Numbering
from headtail.sampling.places import PairPlaces

# Which of a batch's nodes the model encodes with its GNN.
GnnScope = Literal["rows", "all", "none"]


@dataclass(frozen=True)
class Counts:
    """How many nodes, positives and pairs (positives, then negatives) a padded batch has: int64 [] on its device."""

    nodes: Tensor
    positives: Tensor
    pairs: Tensor


@dataclass(frozen=True)
class Work:
    """Nodes and pairs of a batch; the nodes that see neighbours and all targets, summed over layers."""

    pairs: int
    nodes: int
    expanded: int
    targets: int


@dataclass(frozen=True)
class Batch:
    """Pairs to score, as places in `nodes`.

    Attributes:
        nodes: int64 [C], the distinct nodes of the batch; its rows are the first `num_rows`.
        positive, negative: int64 [2, P], [2, Q], (row, column) places.
        negative_of: int64 [Q], the positive each negative belongs to.
        neighbourhood: what the GNN needs to encode the rows (or all nodes); None without a GNN.
        graph: the message graph that the batch was drawn from.
        evidence: float32 [P + Q, columns], of the positives, then of the negatives.
        counts, places, unpadded: how much of the batch is real, all its pairs, and the batch as it was before, where it
            is padded (`padding`); else None.
        work: how much of the batch is real, where the host knows it without looking at the batch.
        shares: float32 [C], what each node counts in norms where other ranks have it too.
    """

    nodes: Tensor
    num_rows: int
    positive: Tensor
    negative: Tensor
    negative_of: Tensor
    neighbourhood: Neighbourhood | None = None
    graph: MessageGraph | None = None
    evidence: Tensor | None = None
    counts: Counts | None = None
    places: PairPlaces | None = None
    unpadded: "Batch | None" = None
    work: "Work | None" = None
    shares: Tensor | None = None

    @property
    def node_count(self) -> Tensor | None:
        """What norms over the nodes must know: how many are no padding, or what each counts."""
        return self.shares if self.counts is None else self.counts.nodes

    @cached_property
    def pairs(self) -> PairPlaces:
        """The positives, then the negatives."""
        if self.places is not None:
            return self.places
        return PairPlaces(torch.cat([self.positive, self.negative], dim=1))


def number_pairs(positives: Positives, negatives: Negatives, numbering: Numbering) -> Batch:
    """Returns a batch of these pairs, without a neighbourhood."""
    rows = numbering.distinct(torch.cat([positives.row, negatives.row]))
    nodes = numbering.extend(rows, torch.cat([positives.col, negatives.col]))
    positive = torch.stack([numbering.local(positives.row), numbering.local(positives.col)])
    negative = torch.stack([numbering.local(negatives.row), numbering.local(negatives.col)])
    return Batch(nodes, rows.numel(), positive, negative, negatives.positive)


def own_chance(ranks: Ranks, generator: torch.Generator) -> torch.Generator:
    """Returns random numbers that no other rank has, and leaves `generator`, which all have, the same on all."""
    if not ranks.several:
        return generator
    seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
    return torch.Generator(device=generator.device).manual_seed(seed + ranks.rank)


@dataclass(frozen=True)
class PairBatches:
    """Batches of pairs alone, for methods without neighbourhoods."""

    links: LinkBatches
    negatives: str
    negatives_per_positive: int

    def __len__(self) -> int:
        return len(self.links)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yields the batches of one epoch; rows without a training link yield none by themselves."""
        known = self.links.supervision
        numbering, space = Numbering(known.num_rows, known.device), NegativeSpace(known)
        for positives in self.links.epoch(generator):
            if positives.row.numel():
                negatives = draw_negatives(self.negatives, space, positives, self.negatives_per_positive, generator)
                yield number_pairs(positives, negatives, numbering)


@dataclass(frozen=True)
class BatchSampler:
    """Composes batch kind, negatives, neighbour sampler and evidence into batches for a model.

    `reads_features` is that of the neighbourhoods. Each of several `ranks` gets its share of every batch, which may be
    empty: all deal the items in the same order, and draw the rest by random numbers of their own.
    """

    graph: MessageGraph
    batches: LinkBatches
    negatives: str
    negatives_per_positive: int
    negative_space: NegativeSpace
    neighbours: NeighbourSampler
    gnn_scope: GnnScope
    layers: int
    evidence: BatchEvidence | None = None
    reads_features: bool = False
    ranks: Ranks = ALONE

    def __len__(self) -> int:
        return len(self.batches)

    @property
    def plans(self) -> tuple[Plan | None, ...] | None:
        """How neighbours are drawn where batches can be drawn in arrays of fixed size; None where they cannot."""
        if self.evidence is not None:
            return None
        return () if self.gnn_scope == "none" else self.neighbours.plans(self.graph, self.layers)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yields the batches of one epoch; rows without a training link yield none by themselves."""
        numbering = Numbering(self.graph.num_nodes, self.graph.device)
        order = self.batches.order(generator)
        own = own_chance(self.ranks, generator)
        for items in order.tensor_split(len(self)):
            if self.batches.has_links(items):
                yield self.batch(self.batches.positives(self.ranks.share(items)), numbering, own)

    def batch(self, positives: Positives, numbering: Numbering, generator: torch.Generator) -> Batch:
        negatives = draw_negatives(
            self.negatives, self.negative_space, positives, self.negatives_per_positive, generator
        )
        evidence = None if self.evidence is None else self.evidence(positives, negatives)
        batch = replace(number_pairs(positives, negatives, numbering), graph=self.graph, evidence=evidence)
        if self.gnn_scope != "none":
            targets = batch.nodes[: batch.num_rows] if self.gnn_scope == "rows" else batch.nodes
            neighbourhood = self.neighbours.sample(
                self.graph, targets, self.layers, numbering, generator, self.reads_features
            )
            batch = replace(batch, neighbourhood=neighbourhood)
        if self.graph.on_disk:
            self._expect_rows(batch)
        return batch

    def _expect_rows(self, batch: Batch) -> None:
        """Has features that lie in files read while the batches before this one are learned."""
        nobody = batch.nodes[:0]
        of_mlp = nobody if self.gnn_scope == "all" else batch.nodes
        of_gnn = nobody if batch.neighbourhood is None else batch.neighbourhood.nodes
        self.graph.expect_rows(torch.cat([of_mlp, of_gnn]), of_mlp)
