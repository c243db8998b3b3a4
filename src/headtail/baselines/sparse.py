"""Scores that are sparse products, score(i, j) = Σ_u left[i, u] · right[j, u], in bounded memory."""

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from headtail.contract import Scorer
from headtail.graph.matrix import Matrix, Nodes

# Cells of the dense scratch block that rows of `left` are spread into (8 bytes each).
SCRATCH_CELLS = 2**23
# Entries of `right` read at once, and steps of one sparse product; a single row may exceed them.
BLOCK_ENTRIES = 2**22


def spans(costs: NDArray[np.int64], budget: int) -> Iterator[tuple[int, int]]:
    """Cuts a list into consecutive spans that cost at most `budget` each; a costlier item gets its own."""
    total = np.cumsum(costs)
    first, paid = 0, 0
    while first < costs.size:
        last = max(int(np.searchsorted(total, paid + budget, side="right")), first + 1)
        yield first, last
        first, paid = last, int(total[last - 1])


class ProductScorer(Scorer):
    """Scores by a product of sparse matrices, in double precision on the CPU.

    Doubles are rounded to float32 only at the end, so sums that are equal on paper come out equal, however
    their terms were ordered, and ties rank as ties.
    """

    def __init__(self, right: Matrix, right_transposed: Matrix) -> None:
        """Sets the side of the tails.

        Args:
            right: [N, N], row j belongs to tail j; all entries are 1.
            right_transposed: its transpose.
        """
        self.num_nodes = right.shape[0]
        self.device = torch.device("cpu")
        self._right = right
        self._right_transposed = right_transposed
        self._tail_entries = np.diff(right.indptr).astype(np.int64)

    @abstractmethod
    def left(self, heads: Nodes) -> Matrix:
        """Returns [B, N], the rows of `left` of these heads."""

    @abstractmethod
    def left_entries(self, heads: Nodes) -> Nodes:
        """Returns int64 [B], upper bounds of the entries these rows of `left` have and of their cost."""

    def finish(self, sums: NDArray[np.float64], heads: Nodes, tails: Nodes) -> NDArray[np.float64]:
        """Returns float64 [P], the scores of pairs whose sums are given; a sum of 0 must score 0."""
        return sums

    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        wanted = heads.cpu().numpy()
        # Every distinct head's row is built once, for all of its pairs.
        order = np.argsort(wanted, kind="stable")
        distinct, counts = np.unique(wanted, return_counts=True)
        pair_start = np.concatenate([[0], np.cumsum(counts)])
        sorted_tails = tails.cpu().numpy()[order]
        found = np.empty(wanted.size)
        most_rows = max(1, min(SCRATCH_CELLS // self.num_nodes, distinct.size))
        scratch = np.zeros(most_rows * self.num_nodes)
        for first, last in self._head_spans(distinct, most_rows):
            low, high = pair_start[first], pair_start[last]
            row_of_pair = np.repeat(np.arange(last - first), counts[first:last])
            block_tails = sorted_tails[low:high]
            sums = self._sum_block(distinct[first:last], row_of_pair, block_tails, scratch)
            found[order[low:high]] = self.finish(sums, distinct[first:last][row_of_pair], block_tails)
        return torch.from_numpy(found).to(heads.device, torch.float32)

    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        rows = heads.cpu().numpy()
        found = np.zeros((rows.size, last - first), dtype=np.float32)
        if (first, last) == (0, self.num_nodes):
            tails = self._right_transposed
        else:
            tails = self._right[first:last].T.tocsr()
        for start, stop in self._head_spans(rows, rows.size):
            product = self.left(rows[start:stop]) @ tails
            row = np.repeat(np.arange(start, stop), np.diff(product.indptr))
            scores = self.finish(product.data, rows[row], product.indices.astype(np.int64) + first)
            found[row, product.indices] = scores
        return torch.from_numpy(found).to(heads.device)

    def _head_spans(self, heads: Nodes, most_rows: int) -> Iterator[tuple[int, int]]:
        for first, last in spans(self.left_entries(heads), BLOCK_ENTRIES):
            for start in range(first, last, most_rows):
                yield start, min(start + most_rows, last)

    def _sum_block(
        self, heads: Nodes, row_of_pair: Nodes, tails: Nodes, scratch: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Returns float64 [P], Σ_u left · right of the pairs (heads[row_of_pair[p]], tails[p]).

        `scratch` is all zero before and after.
        """
        rows = self.left(heads)
        cells = np.repeat(np.arange(heads.size) * self.num_nodes, np.diff(rows.indptr)) + rows.indices
        scratch[cells] = rows.data
        parts = []
        for first, last in spans(self._tail_entries[tails], BLOCK_ENTRIES):
            read = self._right[tails[first:last]]
            # Shifted to its head's row, a tail's row indexes the flat scratch: one product sums all pairs.
            offset = np.repeat(row_of_pair[first:last] * self.num_nodes, np.diff(read.indptr))
            shifted = (read.data, read.indices + offset, read.indptr)
            parts.append(sparse.csr_array(shifted, shape=(last - first, scratch.size)) @ scratch)
        # Only the cells that were written are cleared: zeroing whole rows would cost N per head.
        scratch[cells] = 0.0
        return np.concatenate(parts)
