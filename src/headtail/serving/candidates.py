"""Candidates: sources, each by a cheap rule of its own, propose tails for heads; what they propose is ranked.

A source is a class with a name; registered here, it takes part in every answer. What it says of a tail is also told to
the second stage, as columns.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtail.evaluation.all_nodes import ANSWERS
from headtail.graph.csr import CSR
from headtail.graph.matrix import Matrix, Nodes
from headtail.registry import Registry
from headtail.serving.sight import Sight

# Cells of the dense scratch that a block of heads is worked on in, 4 bytes each.
SCRATCH_CELLS = 2**22
MOST_HEADS = 64


class CandidateSource(ABC):
    """Names likely tails of any head, by one rule, from what it sees of a view.

    What takes long to make it has the sight make (`Sight.matrix_of`, `Sight.table_of`), so that a run can keep it.
    """

    name: ClassVar[str]

    def __init__(self, sight: Sight) -> None:
        self.sight = sight

    @classmethod
    def unavailable(cls, sight: Sight) -> str | None:
        """Says why there is no such source for a graph; None where there is one."""
        return None

    @abstractmethod
    def scores(self, heads: Nodes) -> Matrix:
        """Returns sparse float32 [B, N]: positive where it has something to say for a tail, more for likelier ones."""

    def propose(self, heads: Tensor, most: int, known: CSR | None = None) -> Tensor:
        """Returns int64 [B, most]: distinct tails of every head [B], best first, equals by number, padded with −1.

        Neither the head itself nor its known links are among them.
        """
        parts = [torch.empty(0, most, dtype=torch.long)]
        for block in torch.split(heads.cpu(), heads_at_once(self.sight.num_nodes)):
            allowed = Allowed.of(block, self.sight.num_nodes, known)
            found = allowed.left_of(self.scores(block.numpy()))
            parts.append(torch.from_numpy(best_of_rows(found, most)))
        return torch.cat(parts)


SOURCES: Registry[type[CandidateSource]] = Registry("candidate source")


def heads_at_once(num_nodes: int) -> int:
    """Returns how many heads make a block, so that a row per head fits the scratch."""
    return max(1, min(MOST_HEADS, SCRATCH_CELLS // num_nodes))


@dataclass(frozen=True)
class Allowed:
    """Which tails each head of a block may be answered with: bool [B, N]."""

    cells: NDArray[np.bool_]

    @staticmethod
    def of(heads: Tensor, num_nodes: int, known: CSR | None, among: Tensor | None = None) -> "Allowed":
        """Bars the heads themselves, their known links, and tails that are not `among` (bool [N]) those asked for."""
        cells = np.ones((heads.numel(), num_nodes), dtype=np.bool_)
        if among is not None:
            cells[:] = among.numpy()
        cells[np.arange(heads.numel()), heads.numpy()] = False
        if known is not None:
            owner, entry = known.entries_of(heads)
            cells[owner.numpy(), known.col[entry].numpy()] = False
        return Allowed(cells)

    def left_of(self, scores: Matrix) -> Matrix:
        """Returns the positive scores of tails that are allowed."""
        row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
        kept = self.cells[row, scores.indices] & (scores.data > 0)
        pointers = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=scores.shape[0]))])
        return type(scores)((scores.data[kept], scores.indices[kept], pointers), shape=scores.shape)


def best_of_rows(scores: Matrix, most: int) -> Nodes:
    """Returns int64 [B, most]: columns of the largest entries of every row, best first, equals by number; −1 pads."""
    found = np.full((scores.shape[0], most), -1, dtype=np.int64)
    for row, (first, last) in enumerate(zip(scores.indptr[:-1], scores.indptr[1:], strict=True)):
        values, columns = scores.data[first:last], scores.indices[first:last]
        if last - first > most:
            least = np.partition(values, last - first - most)[last - first - most]
            kept = values >= least
            values, columns = values[kept], columns[kept]
        order = np.lexsort((columns, -values))[:most]
        found[row, : order.size] = columns[order]
    return found


@dataclass(frozen=True, eq=False)
class Lists:
    """The candidates of some heads, with what each source says of them.

    Attributes:
        heads: int64 [B].
        tails: int64 [B, T], ascending; −1 where a head has fewer.
        values: float32 [B, T] by source: its score, 0 where it says nothing.
    """

    heads: Tensor
    tails: Tensor
    values: Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Candidates:
    """A union of what sources propose.

    Attributes:
        sources: what proposes, of one view.
        budgets: how many tails each may propose, by name; 0: its word is heard, but it proposes none.
    """

    sources: Sequence[CandidateSource]
    budgets: Mapping[str, int]

    @property
    def sight(self) -> Sight:
        return self.sources[0].sight

    def lists(
        self, heads: Tensor, known: CSR | None = None, among: Tensor | None = None, least: int = ANSWERS
    ) -> Lists:
        """Returns the candidates of a block of heads [B].

        Args:
            heads: as many as `heads_at_once` allows.
            known: links not to answer with.
            among: bool [N], the only tails to answer with.
            least: candidates that every head is to have, if so many tails are allowed: where budgets give fewer,
                sources propose so many, and the most popular fill up. As many as lists are judged by, so that what
                is learned and chosen holds for every list that is no longer.
        """
        nodes, n = heads.numpy(), self.sight.num_nodes
        allowed = Allowed.of(heads, n, known, among)
        chosen = np.zeros_like(allowed.cells)
        said = {source.name: source.scores(nodes) for source in self.sources}
        proposing = {name: allowed.left_of(scores) for name, scores in said.items() if self.budgets.get(name)}
        for name, scores in proposing.items():
            _choose(chosen, np.arange(len(nodes)), scores, self.budgets[name])
        short = np.flatnonzero(chosen.sum(axis=1) < least)
        for scores in proposing.values() if short.size else ():
            _choose(chosen, short, scores[short], least)
        self._fill_up(chosen, allowed, least)
        tails = _padded(chosen)
        scratch = np.zeros(chosen.shape, dtype=np.float32)
        values = {name: _looked_up(scores, tails, scratch) for name, scores in said.items()}
        return Lists(heads, torch.from_numpy(tails), values)

    def _fill_up(self, chosen: NDArray[np.bool_], allowed: Allowed, least: int) -> None:
        """Adds the most popular allowed tails to heads with fewer than `least` candidates."""
        short = np.flatnonzero(chosen.sum(axis=1) < least)
        popular = self.sight.popular
        for row in short:
            more = popular[allowed.cells[row, popular] & ~chosen[row, popular]]
            chosen[row, more[: least - int(chosen[row].sum())]] = True


def _choose(chosen: NDArray[np.bool_], rows: Nodes, scores: Matrix, most: int) -> None:
    """Adds the best tails of some rows, of which `scores` holds one after the other."""
    tails = best_of_rows(scores, min(most, chosen.shape[1]))
    chosen[np.repeat(rows, (tails >= 0).sum(axis=1)), tails[tails >= 0]] = True


def _padded(chosen: NDArray[np.bool_]) -> Nodes:
    """Returns int64 [B, T]: the columns that are chosen in every row, ascending, padded with −1."""
    row, column = np.nonzero(chosen)
    sizes = np.bincount(row, minlength=chosen.shape[0])
    tails = np.full((chosen.shape[0], int(sizes.max(initial=1))), -1, dtype=np.int64)
    tails[row, np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)] = column
    return tails


def _looked_up(scores: Matrix, tails: Nodes, scratch: NDArray[np.float32]) -> Tensor:
    """Returns float32 [B, T], the entries of the rows at the tails; `scratch` [B, N] is all zero before and after."""
    row = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    scratch[row, scores.indices] = scores.data
    found = np.take_along_axis(scratch, np.maximum(tails, 0), axis=1)
    scratch[row, scores.indices] = 0.0
    return torch.from_numpy(np.where(tails >= 0, found, np.float32(0)))
