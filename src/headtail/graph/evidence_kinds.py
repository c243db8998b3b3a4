"""The kinds of evidence about a pair: what its surroundings say, as columns that the scorer reads beside U ⊙ V.

A link that is present in the view is never evidence for itself: its own contribution is left out, so that training
pairs look like pairs of the test.
"""

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

from headtail.graph.ages import Freshness
from headtail.graph.kept import Kept, State, rows_state, within
from headtail.graph.pairs import Pairs
from headtail.graph.paths import ShortPaths
from headtail.graph.tables import Table, beside, by_columns, fill, mean_row, rows_of
from headtail.graph.view import GraphView
from headtail.kernels.blocks import block_size
from headtail.registry import Registry

# Features are compared in blocks of so many rows; on a GPU, in what fits.
ROWS_ON_CPU = 2**16
COMPARING = "comparing features"


class Evidence(ABC):
    """One kind of evidence, prepared for a view with features [N, d]."""

    # Columns in directed and in undirected graphs.
    width: tuple[int, int]

    def __init__(self, view: GraphView, features: Table) -> None:
        self.view = view

    @classmethod
    def reopened(cls, view: GraphView, features: Table, kept: Kept) -> "Evidence":
        """Returns the same as the class does, with what was kept of its `state`; `kept` may hold nothing of it."""
        return cls(view, features)

    def state(self) -> State:
        """Returns what takes long to make."""
        return {}

    @abstractmethod
    def columns(self, pairs: Pairs) -> list[Tensor]:
        """Returns float32 [P] columns of about unit scale, logarithms for counts."""


EVIDENCE: Registry[type[Evidence]] = Registry("evidence")


@EVIDENCE.register("degrees")
class Degrees(Evidence):
    """Degrees of both ends, in each direction; and whether the reverse link exists."""

    width = (5, 2)

    def __init__(self, view: GraphView, features: Table) -> None:
        super().__init__(view, features)
        self.out_degree, self.in_degree = view.out_rows.degrees.float(), view.in_rows.degrees.float()

    def columns(self, pairs: Pairs) -> list[Tensor]:
        heads, tails = pairs.heads, pairs.tails
        out_of_head = self.out_degree[heads] - pairs.hides.float()
        into_tail = self.in_degree[tails] - pairs.hides_own.float()
        if not self.view.directed:
            return [out_of_head.log1p(), into_tail.log1p()]
        reverse = self.view.out_rows.contains(tails, heads).float()
        others = [self.in_degree[heads].log1p(), self.out_degree[tails].log1p()]
        return [out_of_head.log1p(), into_tail.log1p(), *others, reverse]


@EVIDENCE.register("common")
class CommonNeighbours(Evidence):
    """Common neighbours: their number, Adamic–Adar and resource allocation; in directed graphs by orientation too."""

    width = (11, 3)

    def __init__(self, view: GraphView, features: Table) -> None:
        super().__init__(view, features)
        rows = view.neighbours
        degree = rows.degrees.float()
        one = torch.ones_like(degree)
        counts = [one, 3 / degree.clamp(min=2).log(), 100 / degree.clamp(min=1)]
        if view.directed:
            # What one of its links weighs to a neighbour that sends many, or receives many.
            sent, received = (100 / links.degrees.clamp(min=1).float() for links in (view.out_rows, view.in_rows))
            counts += [one, received, one, sent, one, received, one, sent]
            ways = [links.contains(rows.row, rows.col).float() for links in (view.out_rows, view.in_rows)]
            self.way = torch.stack(ways, dim=1)
        self.count = torch.stack(counts, dim=1)  # [N, columns], what a common neighbour adds to each column

    def columns(self, pairs: Pairs) -> list[Tensor]:
        common = pairs.common
        values = self.count[common.node]
        if self.view.directed:
            # i → z ← j, i → z → j, i ← z ← j, i ← z → j: two columns each
            oriented = self.way[common.head_entry][:, :, None] * self.way[common.tail_entry][:, None, :]
            values[:, 3:] *= oriented.flatten(1).repeat_interleave(2, dim=1)
        return list(pairs.sum_over_common(values).log1p().T)


@EVIDENCE.register("paths")
class Paths(Evidence):
    """Paths of three links: tails of heads that share tails with this head, without detours through hubs."""

    width = (2, 2)

    def __init__(self, view: GraphView, features: Table, paths: ShortPaths | None = None) -> None:
        super().__init__(view, features)
        self.paths = ShortPaths.build(view) if paths is None else paths
        self.in_degree = view.in_rows.degrees.float()

    @classmethod
    def reopened(cls, view: GraphView, features: Table, kept: Kept) -> "Paths":
        shared, share = kept.rows("shared", view.num_nodes), kept.table("share", view.num_nodes)
        if shared is None or share is None:
            return cls(view, features)
        return cls(view, features, ShortPaths(shared.to(features.device), share.to(features.device)))

    def state(self) -> State:
        return {**within("shared", rows_state(self.paths.shared)), "share": self.paths.share}

    def columns(self, pairs: Pairs) -> list[Tensor]:
        sums = 100 * self.paths.weigh(pairs)
        others = (self.in_degree[pairs.tails] - pairs.hides_own.float()).clamp(min=1)
        return [sums.log1p(), (sums / others).log1p()]


@EVIDENCE.register("similarity")
class Similarity(Evidence):
    """Cosines of features: tail and head, tail and the head's other tails, head and the tail's other heads."""

    width = (3, 3)

    def __init__(self, view: GraphView, features: Table) -> None:
        super().__init__(view, features)
        mean, size = mean_row(features), block_size(features.device, 16 * features.shape[1], ROWS_ON_CPU)
        self.unit = beside(features, COMPARING)
        fill(self.unit, lambda rows: F.normalize(rows_of(features, rows) - mean, dim=1), size, COMPARING)
        self.tails_of = by_columns(self.unit, view.out_rows.matmul, COMPARING)
        self.heads_of = by_columns(self.unit, view.in_rows.matmul, COMPARING)
        self.out_degree, self.in_degree = view.out_rows.degrees.float(), view.in_rows.degrees.float()

    def columns(self, pairs: Pairs) -> list[Tensor]:
        heads, tails, hides, own = pairs.heads, pairs.tails, pairs.hides.float(), pairs.hides_own.float()
        head, tail = rows_of(self.unit, heads), rows_of(self.unit, tails)
        # What a hidden link adds to the sums is taken out again: its tail to the head's tails, its head to the tail's.
        other = tail if pairs.hidden is None else rows_of(self.unit, pairs.other)
        to_tails = (rows_of(self.tails_of, heads) * tail).sum(dim=1) - hides * (other * tail).sum(dim=1)
        to_heads = (rows_of(self.heads_of, tails) * head).sum(dim=1) - own * head.square().sum(dim=1)
        return [
            (head * tail).sum(dim=1),
            to_tails / (self.out_degree[heads] - hides).clamp(min=1),
            to_heads / (self.in_degree[tails] - own).clamp(min=1),
        ]


@EVIDENCE.register("ages")
class Ages(Evidence):
    """Where links are dated: how new the links to common neighbours are, and how active both ends were of late."""

    width = (6, 6)

    def __init__(self, view: GraphView, features: Table) -> None:
        super().__init__(view, features)
        rows = view.neighbours
        self.freshness = Freshness(rows, view)
        self.rarity = 100 / rows.degrees.clamp(min=1).float()

    def columns(self, pairs: Pairs) -> list[Tensor]:
        common, fresh = pairs.common, self.freshness
        both = fresh.of_entry[common.head_entry] * fresh.of_entry[common.tail_entry]
        values = torch.stack([10 * both, both * self.rarity[common.node]], dim=1)
        # A link that leads back from the tail to the head is left out as well: it would be of the same two nodes.
        own = pairs.other == pairs.tails
        of_head = fresh.without(pairs.heads, pairs.other, pairs.hides | own)
        of_tail = fresh.without(pairs.tails, pairs.heads, own)
        return [*pairs.sum_over_common(values).log1p().T, *of_head, *of_tail]
