"""Heuristics: scores read off the links of the view, with nothing to train."""

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from headtail.baselines.sparse import ProductScorer
from headtail.contract import Method, Scorer
from headtail.graph.matrix import Matrix, Nodes, scale_columns, to_scipy
from headtail.graph.view import GraphView
from headtail.registry import Registry

HEURISTICS: Registry[type[Method]] = Registry("heuristic")
# β of Katz: what a path weighs relative to one that is a link shorter.
KATZ_WEIGHT = 0.005


@HEURISTICS.register("popularity")
class Popularity(Method):
    """In-degree of the tail; in undirected graphs the mean degree of both ends."""

    def encode(self, view: GraphView) -> Scorer:
        degree = view.in_rows.degrees
        if view.directed:
            return _DegreeScorer(torch.zeros_like(degree), degree, torch.add)
        # The mean of both orientations, of which each scores the degree of its own tail.
        return _DegreeScorer(degree / 2, degree / 2, torch.add)


@HEURISTICS.register("pa")
class PreferentialAttachment(Method):
    """Out-degree of the head times in-degree of the tail; in undirected graphs the product of both degrees."""

    def encode(self, view: GraphView) -> Scorer:
        return _DegreeScorer(view.out_rows.degrees, view.in_rows.degrees, torch.mul)


class _DegreeScorer(Scorer):
    """A number of the head's combined with one of the tail's."""

    def __init__(self, of_head: Tensor, of_tail: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.num_nodes = of_tail.numel()
        self.device = torch.device("cpu")
        # Doubles hold every product of two degrees exactly.
        self._of_head = of_head.cpu().double()
        self._of_tail = of_tail.cpu().double()
        self._combine = combine

    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        return self._combine(self._of_head[heads.cpu()], self._of_tail[tails.cpu()]).to(heads.device, torch.float32)

    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        rows = self._combine(self._of_head[heads.cpu()][:, None], self._of_tail[first:last])
        return rows.to(heads.device, torch.float32)


class _CommonNeighbours(Method):
    """Σ over the common neighbours z of both ends of a weight that depends on the degree of z.

    Neighbours are those of the symmetric graph, also for directed data.
    """

    @abstractmethod
    def weight(self, degree: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns float64 [N], the weight of a common neighbour with each of these degrees [N]."""

    def encode(self, view: GraphView) -> Scorer:
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


@HEURISTICS.register("jaccard")
class Jaccard(Method):
    """Common neighbours as a share of all neighbours of either end.

    Neighbours are those of the symmetric graph, also for directed data.
    """

    def encode(self, view: GraphView) -> Scorer:
        neighbours = to_scipy(view.neighbours)
        return _JaccardScorer(neighbours, np.ones(view.num_nodes))


class _JaccardScorer(_CommonNeighbourScorer):
    def finish(self, sums: NDArray[np.float64], heads: Nodes, tails: Nodes) -> NDArray[np.float64]:
        either = self._tail_entries[heads] + self._tail_entries[tails] - sums
        # Where neither end has a neighbour, none is common.
        return sums / np.maximum(either, 1)


@HEURISTICS.register("item2hop")
class ItemTwoHop(Method):
    """Tails chosen by the heads that share tails with this head: D · diag(1 / in-degree) · Dᵀ · D.

    D holds the directed links of the view. Undirected links count in both directions, and the score is the
    mean of both orientations.
    """

    def encode(self, view: GraphView) -> Scorer:
        out_rows = to_scipy(view.out_rows)
        if view.directed:
            return _ItemScorer(out_rows, to_scipy(view.in_rows))
        return _SymmetricItemScorer(out_rows)


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
    """Mean of A · diag(1/d) · A · A and its transpose: left = A · (diag(1/d) · A + A · diag(1/d)) / 2."""

    def __init__(self, neighbours: Matrix) -> None:
        super().__init__(neighbours, neighbours)
        mean_share = (np.repeat(self._share, self._tail_entries) + self._share[neighbours.indices]) / 2
        self._mean_step: Matrix = sparse.csr_array(
            (mean_share, neighbours.indices, neighbours.indptr), shape=neighbours.shape
        )

    def left(self, heads: Nodes) -> Matrix:
        return self._out_rows[heads] @ self._mean_step


@HEURISTICS.register("katz")
class Katz(Method):
    """Paths of 1, 2 and 3 links between the ends, each of l links weighing 0.005^l.

    Paths run through the symmetric graph, also for directed data, and may visit a node twice.
    """

    def encode(self, view: GraphView) -> Scorer:
        return _KatzScorer(to_scipy(view.neighbours))


class _KatzScorer(ProductScorer):
    """β³ · (A / β² + A · A / β + A · A · A), as left = A · (A + I / β) + I / β² and right = A.

    With 1 / β a whole number all sums are whole numbers, so equal scores come out equal in any order of adding.
    """

    def __init__(self, neighbours: Matrix) -> None:
        super().__init__(neighbours, neighbours)
        one = sparse.eye_array(self.num_nodes, format="csr")
        stay_or_step: Matrix = sparse.csr_array(neighbours + one / KATZ_WEIGHT)
        # Beside and below A, the identities put the sum that is `left` into one product: [A, I/β²] · [A + I/β; I].
        self._first: Matrix = sparse.hstack([neighbours, one / KATZ_WEIGHT**2], format="csr")
        self._then: Matrix = sparse.vstack([stay_or_step, one], format="csr")
        entries = np.diff(stay_or_step.indptr).astype(np.float64)
        self._steps: Nodes = np.asarray(neighbours @ entries).astype(np.int64) + 1

    def left(self, heads: Nodes) -> Matrix:
        return self._first[heads] @ self._then

    def left_entries(self, heads: Nodes) -> Nodes:
        return self._steps[heads]

    def finish(self, sums: NDArray[np.float64], heads: Nodes, tails: Nodes) -> NDArray[np.float64]:
        return sums * KATZ_WEIGHT**3
