"""The sources of candidates that come with headtail. Each is a rule of a line; CONTRIBUTING.md says how to add one."""

from abc import abstractmethod
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from headtail.graph.matrix import Matrix, Nodes, scale_columns
from headtail.graph.pairs import sum_by_owner
from headtail.serving.candidates import SOURCES, CandidateSource
from headtail.serving.factors import link_factors
from headtail.serving.item_tables import item_table
from headtail.serving.sight import Sight, falling

# Nodes of more neighbours than this tell nearly nothing about any two of them.
MOST_NEIGHBOURS = 3000
ALIKE, POPULAR = 50, 100
# Tails that sources name which could say something of all; what they say is more than rounding from here on.
NAMED, LEAST_SAID = 300, 1e-6


class _ThroughItems(CandidateSource):
    """Sums what each tail of the head says about further tails: a row of a table made once."""

    @abstractmethod
    def table(self) -> Matrix:
        """Returns [N, N]: row z is what a link to z says about links to others."""

    def scores(self, heads: Nodes) -> Matrix:
        return self.sight.out[heads] @ self.sight.matrix_of(self.name, self.table)


@SOURCES.register("paths")
class Paths(_ThroughItems):
    """Paths of three links: tails of the heads that share a tail with this head, who hand on equal shares."""

    name = "paths"

    def table(self) -> Matrix:
        return item_table(self.sight, self.sight.out)


@SOURCES.register("walks")
class Walks(_ThroughItems):
    """Random walks of three links, popular ends damped: as paths, but a head of many tails says less about each."""

    name = "walks"

    def table(self) -> Matrix:
        s = self.sight
        damped = scale_columns(s.out, falling(s.in_degree, 0.5))
        damped.data *= np.repeat(falling(s.out_degree), s.out_degree)
        return item_table(s, damped)


@SOURCES.register("recent")
class Recent(_ThroughItems):
    """Paths of three links whose last is one of the newest."""

    name = "recent"

    @classmethod
    def unavailable(cls, sight: Sight) -> str | None:
        return None if sight.dated else "links are not dated"

    def table(self) -> Matrix:
        return item_table(self.sight, self.sight.newest.out)


class _ThroughNeighbours(CandidateSource):
    """Sums a weight over the neighbours that head and tail have in common, in the symmetric graph."""

    @abstractmethod
    def weight(self, degree: Nodes) -> NDArray[np.float32]:
        """Returns float32 [N], what a common neighbour of each of these degrees adds."""

    @cached_property
    def _left(self) -> Matrix:
        degree = np.diff(self.sight.around.indptr).astype(np.int64)
        return scale_columns(self.sight.around, np.where(degree <= MOST_NEIGHBOURS, self.weight(degree), 0))

    def right(self) -> Matrix:
        """Returns the links that lead from common neighbours to tails."""
        return self.sight.around

    def scores(self, heads: Nodes) -> Matrix:
        return self._left[heads] @ self.right()


@SOURCES.register("common")
class Common(_ThroughNeighbours):
    """Common neighbours, each weighing the less the more neighbours it has (Adamic–Adar)."""

    name = "common"

    def weight(self, degree: Nodes) -> NDArray[np.float32]:
        return (1 / np.log(np.maximum(degree, 2))).astype(np.float32)


@SOURCES.register("allocation")
class Allocation(_ThroughNeighbours):
    """Common neighbours that hand on equal shares (resource allocation)."""

    name = "allocation"

    def weight(self, degree: Nodes) -> NDArray[np.float32]:
        return falling(degree)


@SOURCES.register("new neighbours")
class NewNeighbours(Allocation):
    """Resource allocation over common neighbours that got their link to the tail of late."""

    name = "new neighbours"

    @classmethod
    def unavailable(cls, sight: Sight) -> str | None:
        return None if sight.dated else "links are not dated"

    def right(self) -> Matrix:
        return self.sight.newest.around


@SOURCES.register("onward")
class Onward(CandidateSource):
    """Tails of the head's tails."""

    name = "onward"

    @classmethod
    def unavailable(cls, sight: Sight) -> str | None:
        return None if sight.directed else "links have no direction, so these are common neighbours"

    def scores(self, heads: Nodes) -> Matrix:
        return self.sight.out[heads] @ self.sight.out


@SOURCES.register("siblings")
class Siblings(CandidateSource):
    """Other tails of the nodes that link to the head."""

    name = "siblings"

    @classmethod
    def unavailable(cls, sight: Sight) -> str | None:
        return None if sight.directed else "links have no direction, so these are common neighbours"

    @cached_property
    def _shares(self) -> Matrix:
        shares = self.sight.out.copy()
        shares.data = np.repeat(falling(self.sight.out_degree), self.sight.out_degree)
        return shares

    def scores(self, heads: Nodes) -> Matrix:
        return self.sight.into[heads] @ self._shares


@SOURCES.register("back")
class Back(CandidateSource):
    """Nodes that link to the head."""

    name = "back"

    @classmethod
    def unavailable(cls, sight: Sight) -> str | None:
        return None if sight.directed else "links have no direction"

    def scores(self, heads: Nodes) -> Matrix:
        return self.sight.into[heads]


@SOURCES.register("alike")
class Alike(CandidateSource):
    """Tails of the nodes whose features are most like the head's."""

    name = "alike"

    @classmethod
    def unavailable(cls, sight: Sight) -> str | None:
        return "nodes have no features of their own" if sight.features is None else None

    def scores(self, heads: Nodes) -> Matrix:
        rows = torch.from_numpy(self.sight.described)
        most = min(ALIKE, self.sight.num_nodes)
        cosines = rows[torch.from_numpy(heads)] @ rows.T
        cosines[torch.arange(len(heads)), torch.from_numpy(heads)] = 0
        value, near = cosines.topk(most, dim=1)
        return _rows_of(value.clamp(min=0).square(), near, self.sight.num_nodes) @ self.sight.out


@SOURCES.register("factors")
class Factors(CandidateSource):
    """Tails in the directions of the head's other tails: a low-rank picture of all links."""

    name = "factors"

    @cached_property
    def _tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """What links add, the tails that have any, and what these answer with."""
        both = self.sight.table_of(self.name, lambda: torch.cat(link_factors(self.sight.view), dim=1))
        width = both.shape[1] // 2
        linked = torch.from_numpy(np.flatnonzero(self.sight.in_degree))
        return both[:, :width], linked, both[:, width : 2 * width][linked]

    def scores(self, heads: Nodes) -> Matrix:
        added, linked, answering = self._tables
        rows = self.sight.view.out_rows
        owner, entry = rows.entries_of(torch.from_numpy(heads))
        asked = sum_by_owner(owner, added[rows.col[entry]], len(heads))
        value, place = (asked @ answering.T).topk(min(NAMED, linked.numel()), dim=1)
        return _rows_of(value.where(value > LEAST_SAID, 0.0), linked[place], self.sight.num_nodes)


@SOURCES.register("popular")
class Popular(CandidateSource):
    """Tails of the most links."""

    name = "popular"

    def scores(self, heads: Nodes) -> Matrix:
        top = torch.from_numpy(self.sight.popular[:POPULAR])
        degree = torch.from_numpy(self.sight.in_degree)[top].float()
        return _rows_of(degree.expand(len(heads), -1), top.expand(len(heads), -1), self.sight.num_nodes)


def _rows_of(values: Tensor, columns: Tensor, num_nodes: int) -> Matrix:
    """Returns [B, N] with the values [B, n] in the columns [B, n]."""
    pointers = np.arange(values.shape[0] + 1) * values.shape[1]
    data = (values.reshape(-1).numpy(), columns.reshape(-1).numpy(), pointers)
    return sparse.csr_array(data, shape=(values.shape[0], num_nodes))
