"""Blocks of heads as small dense tables: a row for each head, a column for each node that anything is said of.

Where a row of all nodes is short, it is a column for every node; where not, the work on a block depends on what is
said and not on the size of the graph.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.matrix import Matrix, Nodes

# Cells of a table with a column for every node; heads of a block, few of which pay for those that share a table.
MOST_CELLS = 2**22
MOST_HEADS, FEWEST_HEADS = 64, 16

_scratch = threading.local()


def heads_at_once(num_nodes: int) -> int:
    """Returns how many heads make a block."""
    return max(FEWEST_HEADS, min(MOST_HEADS, MOST_CELLS // num_nodes))


@dataclass(frozen=True, eq=False)
class Cells:
    """The tails of a block of heads that anything is said of, and which of them may be answered with.

    Attributes:
        columns: int64 [U], the node of every column, ascending; None: every node has its own.
        open: bool [B, U], whether a head may be answered with a node: it is not the head, nor known, nor left out.
    """

    columns: Nodes | None
    open: NDArray[np.bool_]

    @staticmethod
    def of(
        heads: Tensor,
        num_nodes: int,
        said: Sequence[Matrix],
        known: CSR | None,
        among: Tensor | None = None,
        also: Nodes | None = None,
    ) -> "Cells":
        """Lays out a block.

        Args:
            heads: int64 [B].
            num_nodes: N, of the graph.
            said: what is said, [B, N] each.
            known: links not to answer with.
            among: bool [N], the only tails to answer with.
            also: nodes that have columns, whatever is said.
        """
        columns = None
        if heads.numel() * num_nodes > MOST_CELLS:
            columns = np.unique(np.concatenate([each.indices for each in said] + ([] if also is None else [also])))
            columns = columns.astype(np.int64)
        width = num_nodes if columns is None else columns.size
        open_ = np.ones((heads.numel(), width), dtype=np.bool_)
        if among is not None:
            open_[:] = among.numpy() if columns is None else among.numpy()[columns]
        cells = Cells(columns, open_)
        cells._bar(np.arange(heads.numel()), heads.numpy())
        if known is not None:
            owner, entry = known.entries_of(heads)
            cells._bar(owner.numpy(), known.col[entry].numpy())
        return cells

    def allowed(self, scores: Matrix) -> Matrix:
        """Returns the positive scores [B, U] of open tails, of scores [B, N] that the block is of."""
        row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
        column = self.numbers(scores.indices)
        kept = self.open[row, column] & (scores.data > 0)
        pointers = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=scores.shape[0]))])
        return sparse.csr_array((scores.data[kept], column[kept], pointers), shape=self.open.shape)

    def numbers(self, nodes: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        """Returns the columns of nodes that have one; of others, any."""
        if self.columns is None:
            return nodes
        place = _numbers(int(max(self.columns.max(initial=0), nodes.max(initial=0))) + 1)
        place[self.columns] = np.arange(self.columns.size, dtype=np.int32)
        numbers: Nodes = np.minimum(place[nodes], max(0, self.columns.size - 1))
        return numbers

    def nodes(self, numbers: Nodes) -> Nodes:
        """Returns the nodes of columns; −1 is none."""
        if self.columns is None:
            return numbers
        return np.where(numbers >= 0, np.append(self.columns, 0)[numbers], -1)

    def _bar(self, rows: Nodes, nodes: Nodes) -> None:
        numbers = self.numbers(nodes)
        if self.columns is not None:
            there = np.append(self.columns, -1)[numbers] == nodes
            rows, numbers = rows[there], numbers[there]
        self.open[rows, numbers] = False


def looked_up(scores: Matrix, tails: Nodes) -> NDArray[np.float32]:
    """Returns float32 [B, T], the entries of rows [B, N] at tails [B, T]; what stands at −1 means nothing."""
    found = np.empty(tails.shape, dtype=np.float32)
    row = _values(scores.shape[1])
    for place, (first, last) in enumerate(zip(scores.indptr[:-1], scores.indptr[1:], strict=True)):
        columns = scores.indices[first:last]
        row[columns] = scores.data[first:last]
        row.take(tails[place], out=found[place], mode="wrap")
        row[columns] = 0.0
    return found


def _numbers(size: int) -> NDArray[np.int32]:
    """Returns int32 [≥ size] of this thread, holding anything from 0 on."""
    if getattr(_scratch, "numbers", np.empty(0)).size < size:
        _scratch.numbers = np.zeros(size, dtype=np.int32)
    return _scratch.numbers  # type: ignore[no-any-return]


def _values(size: int) -> NDArray[np.float32]:
    """Returns float32 [≥ size] of this thread, all zero between uses."""
    if getattr(_scratch, "values", np.empty(0)).size < size:
        _scratch.values = np.zeros(size, dtype=np.float32)
    return _scratch.values  # type: ignore[no-any-return]
