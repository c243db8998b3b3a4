"""The sources of candidates that come with headtail. Each is a rule of a line; CONTRIBUTING.md says how to add one."""

from abc import abstractmethod
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtail.graph.matrix import Matrix, Nodes, rows_of, scale_columns
from headtail.graph.pairs import sum_by_owner
from headtail.serving.candidates import SOURCES, CandidateSource
from headtail.serving.factors import link_factors
from headtail.serving.item_tables import item_table
from headtail.serving.sight import Sight, falling

# Nodes of more neighbours than this tell nearly nothing about any two of them.
MOST_NEIGHBOURS = 3000
POPULAR = 100
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
        left = scale_columns(self.sight.around, np.where(degree <= MOST_NEIGHBOURS, self.weight(degree), 0)).copy()
        left.eliminate_zeros()  # or products would go through the neighbours of those that say nothing
        return left

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
        return "nodes have no features of their own" if sight.described is None else None

    def scores(self, heads: Nodes) -> Matrix:
        return self.sight.matrix_of(self.name, self._alike)[heads] @ self.sight.out

    def _alike(self) -> Matrix:
        assert self.sight.described is not None
        return self.sight.described.alike


@SOURCES.register("factors")
class Factors(CandidateSource):
    """Tails in the directions of the head's other tails: a low-rank picture of all links."""

    name = "factors"

    @cached_property
    def _tables(self) -> tuple[Tensor, Tensor, NDArray[np.int64], NDArray[np.float32]]:
        """What links add, what tails answer with, the tails that have links, and what these answer with."""
        both = self.sight.table_of(self.name, lambda: torch.cat(link_factors(self.sight.view), dim=1))
        added, answering = both.chunk(2, dim=1)
        linked = np.flatnonzero(self.sight.in_degree)
        return added, answering, linked, answering.numpy()[linked]

    def scores(self, heads: Nodes) -> Matrix:
        _, _, linked, answering = self._tables
        said = self._asked(torch.from_numpy(heads)).numpy() @ answering.T
        most = min(NAMED, linked.size)
        best = np.argpartition(said, linked.size - most, axis=1)[:, linked.size - most :]
        values = np.take_along_axis(said, best, axis=1)
        return rows_of(np.where(values > LEAST_SAID, values, np.float32(0)), linked[best], self.sight.num_nodes)

    def of_tails(self, heads: Tensor, tails: Tensor) -> Tensor:
        said = (self._tables[1][tails.clamp(min=0)] @ self._asked(heads)[:, :, None]).squeeze(2)
        return said.where(said > LEAST_SAID, 0.0)

    def _asked(self, heads: Tensor) -> Tensor:
        """Returns [B, k], the sum of what the links of each head add."""
        rows = self.sight.view.out_rows
        owner, entry = rows.entries_of(heads)
        return sum_by_owner(owner, self._tables[0][rows.col[entry]], heads.numel())


@SOURCES.register("popular")
class Popular(CandidateSource):
    """Tails of the most links."""

    name = "popular"

    def scores(self, heads: Nodes) -> Matrix:
        top = self.sight.popular[:POPULAR]
        shape = (len(heads), top.size)
        degrees = self.sight.in_degree[top].astype(np.float32)
        return rows_of(np.broadcast_to(degrees, shape), np.broadcast_to(top, shape), self.sight.num_nodes)
