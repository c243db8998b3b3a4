"""Heuristics: scores read off the links of the view, with nothing to train."""

from abc import abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtail.baselines.sparse import Matrix, Nodes, ProductScorer, scale_columns, to_scipy
from headtail.contract import Method, PairScorer
from headtail.graph.view import GraphView
from headtail.registry import Registry

HEURISTICS: Registry[type[Method]] = Registry("heuristic")


@HEURISTICS.register("popularity")
class Popularity(Method):
    """In-degree of the tail; in undirected graphs the mean degree of both ends."""

    def scorer(self, view: GraphView) -> PairScorer:
        return _DegreeScorer(view)


class _DegreeScorer(PairScorer):
    def __init__(self, view: GraphView) -> None:
        self.num_nodes = view.num_nodes
        self.device = torch.device("cpu")
        degree = view.in_rows.degrees.cpu().to(torch.float32)
        # Undirected: the mean of both orientations, of which each scores the degree of its own tail.
        self._of_tail = degree if view.directed else degree / 2
        self._of_head = torch.zeros_like(degree) if view.directed else degree / 2

    def score(self, heads: Tensor, tails: Tensor) -> Tensor:
        return (self._of_head[heads.cpu()] + self._of_tail[tails.cpu()]).to(heads.device)

    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        rows = self._of_head[heads.cpu()][:, None] + self._of_tail[first:last]
        return rows.to(heads.device)


class _CommonNeighbours(Method):
    """Σ over the common neighbours z of both ends of a weight that depends on the degree of z.

    Neighbours are those of the symmetric graph, also for directed data.
    """

    @abstractmethod
    def weight(self, degree: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns float64 [N], the weight of a common neighbour with each of these degrees [N]."""

    def scorer(self, view: GraphView) -> PairScorer:
        neighbours = to_scipy(view.neighbours)
        degree = np.diff(neighbours.indptr).astype(np.float64)
        return _CommonNeighbourScorer(neighbours, self.weight(degree))


class _CommonNeighbourScorer(ProductScorer):
    """A · diag(weight) · A."""

    def __init__(self, neighbours: Matrix, weight: NDArray[np.float64]) -> None:
        super().__init__(neighbours, neighbours)
        self._weighted = scale_columns(neighbours, weight)

    def left(self, heads: Nodes) -> Matrix:
        return self._weighted[heads]

    def left_entries(self, heads: Nodes) -> Nodes:
        return self._tail_entries[heads]


@HEURISTICS.register("cn")
class CommonNeighbours(_CommonNeighbours):
    """Number of common neighbours."""

    def weight(self, degree: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.ones_like(degree)


@HEURISTICS.register("aa")
class AdamicAdar(_CommonNeighbours):
    """Common neighbours z weighted by 1 / log degree(z)."""

    def weight(self, degree: NDArray[np.float64]) -> NDArray[np.float64]:
        # A neighbour of two distinct nodes has degree ≥ 2; degree 1 occurs only where both ends are one node.
        return np.where(degree > 1, 1 / np.log(np.maximum(degree, 2)), 0.0)


@HEURISTICS.register("ra")
class ResourceAllocation(_CommonNeighbours):
    """Common neighbours z weighted by 1 / degree(z)."""

    def weight(self, degree: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1 / np.maximum(degree, 1)


@HEURISTICS.register("item2hop")
class ItemTwoHop(Method):
    """Tails chosen by the heads that share tails with this head: D · diag(1 / in-degree) · Dᵀ · D.

    D holds the directed links of the view. Undirected links count in both directions, and the score is the
    mean of both orientations.
    """

    def scorer(self, view: GraphView) -> PairScorer:
        out_rows = to_scipy(view.out_rows)
        if view.directed:
            return _ItemScorer(out_rows, to_scipy(view.in_rows))
        return _SymmetricItemScorer(out_rows, out_rows)


class _ItemScorer(ProductScorer):
    """left = D · diag(1 / in-degree) · Dᵀ and right = Dᵀ, which never forms the three-fold product."""

    def __init__(self, out_rows: Matrix, in_rows: Matrix) -> None:
        super().__init__(in_rows, out_rows)
        in_degree = np.diff(in_rows.indptr)
        self._share = 1 / np.maximum(in_degree, 1)
        self._out_rows = out_rows
        self._in_rows = in_rows
        self._steps = (out_rows @ in_degree.astype(np.float64)).astype(np.int64)

    def left(self, heads: Nodes) -> Matrix:
        return scale_columns(self._out_rows[heads], self._share) @ self._in_rows

    def left_entries(self, heads: Nodes) -> Nodes:
        return self._steps[heads]


class _SymmetricItemScorer(_ItemScorer):
    """Mean of A · diag(1/d) · A · A and its transpose: left = (A · diag(1/d) · A + A · A · diag(1/d)) / 2."""

    def left(self, heads: Nodes) -> Matrix:
        rows = self._out_rows[heads]
        forward = scale_columns(rows, self._share / 2) @ self._out_rows
        backward = scale_columns(rows @ self._out_rows, self._share / 2)
        return forward + backward
