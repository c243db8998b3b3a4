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
from headtail.serving.cells import Cells, heads_at_once, looked_up
from headtail.serving.sight import Sight


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

    def of_tails(self, heads: Tensor, tails: Tensor) -> Tensor | None:
        """Returns float32 [B, T], what it says of tails [B, T] of heads [B]; None: that is looked up in `scores`.

        Sources override this where naming the likely tails of all takes longer than judging some.
        """
        return None

    def propose(self, heads: Tensor, most: int, known: CSR | None = None) -> Tensor:
        """Returns int64 [B, most]: distinct tails of every head [B], best first, equals by number, padded with −1.

        Neither the head itself nor its known links are among them.
        """
        parts = [torch.empty(0, most, dtype=torch.long)]
        for block in torch.split(heads.cpu(), heads_at_once(self.sight.num_nodes)):
            scores = self.scores(block.numpy())
            cells = Cells.of(block, self.sight.num_nodes, [scores], known)
            parts.append(torch.from_numpy(cells.nodes(best_of_rows(cells.allowed(scores), most))))
        return torch.cat(parts)


SOURCES: Registry[type[CandidateSource]] = Registry("candidate source")


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
            heads: as many as `heads_at_once` says.
            known: links not to answer with.
            among: bool [N], the only tails to answer with.
            least: candidates that every head is to have, if so many tails are allowed: where budgets give fewer,
                sources propose so many, and the most popular fill up. As many as lists are judged by, so that what
                is learned and chosen holds for every list that is no longer.
        """
        nodes = heads.numpy()
        said = {source.name: source.scores(nodes) for source in self.sources if self.budgets.get(source.name)}
        # So many, that those among them who may be answered with are enough.
        more = least + 1 + (0 if known is None else int(known.degrees[heads].max()))
        popular = self.sight.popular if among is None else self.sight.popular[among.numpy()[self.sight.popular]]
        cells = Cells.of(heads, self.sight.num_nodes, list(said.values()), known, among, popular[:more])
        proposing = {name: cells.allowed(scores) for name, scores in said.items()}
        chosen = np.zeros_like(cells.open)
        for name, scores in proposing.items():
            _choose(chosen, np.arange(len(nodes)), scores, self.budgets[name])
        short = np.flatnonzero(chosen.sum(axis=1) < least)
        for scores in proposing.values() if short.size else ():
            _choose(chosen, short, scores[short], least)
        _fill_up(chosen, cells, popular[:more], least)
        tails = torch.from_numpy(cells.nodes(_padded(chosen)))
        return Lists(heads, tails, {source.name: self._told(source, said, heads, tails) for source in self.sources})

    def _told(self, source: CandidateSource, said: Mapping[str, Matrix], heads: Tensor, tails: Tensor) -> Tensor:
        told = source.of_tails(heads, tails)
        if told is None:
            scores = said[source.name] if source.name in said else source.scores(heads.numpy())
            told = torch.from_numpy(looked_up(scores, tails.numpy()))
        return told.masked_fill_(tails < 0, 0.0)


def _fill_up(chosen: NDArray[np.bool_], cells: Cells, popular: Nodes, least: int) -> None:
    """Adds the first of the popular that are open to heads with fewer than `least` candidates."""
    numbers = cells.numbers(popular)
    for row in np.flatnonzero(chosen.sum(axis=1) < least):
        more = numbers[cells.open[row, numbers] & ~chosen[row, numbers]]
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
