"""Rankings of candidates: by one source, by the first scorer, by what the second stage learned, or by two of these."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.errors import RunError
from headtail.evaluation.nan import refuse_nan
from headtail.serving.candidates import Lists
from headtail.serving.columns import columns_of, feature_columns, first_of, link_columns, narrowed, places
from headtail.serving.sight import Sight

if TYPE_CHECKING:
    from lightgbm import Booster

# Candidates of a head that trees look at twice.
NARROWED = 150
# What two rankings say of a place is blended as 1 / (place + this).
BLEND_OFFSET = 10
# Candidates of a head that the first scorer looks at: the best of a cheaper ranking.
SHORTLIST = 100


class Ranking(ABC):
    """Gives the candidates of heads scores, of which a higher one is a better place."""

    @abstractmethod
    def rank(self, lists: Lists, k: int = 1) -> Tensor:
        """Returns float32 [B, T], −inf where there is no candidate, or where it has no place and k others do."""


@dataclass(frozen=True)
class BySource(Ranking):
    """The word of one source."""

    source: str

    def rank(self, lists: Lists, k: int = 1) -> Tensor:
        return lists.values[self.source].masked_fill(lists.tails < 0, -torch.inf)


@dataclass(frozen=True, eq=False)
class ByTrees(Ranking):
    """Boosted trees over columns of the candidates.

    Attributes:
        model: the trees, as `plain_trees` returns them.
        names: the columns they read.
        sight: where columns are read off.
    """

    model: str
    names: tuple[str, ...]
    sight: Sight

    @cached_property
    def _trees(self) -> "Booster":
        from lightgbm import Booster

        return Booster(model_str=self.model)

    def rank(self, lists: Lists, k: int = 1) -> Tensor:
        return self.rank_columns(columns_of(lists, self.sight), lists.tails >= 0)

    def rank_columns(self, columns: dict[str, Tensor], there: Tensor) -> Tensor:
        """Returns float32 [B, T] of columns that are read already; `there` bool [B, T] tells what is a candidate.

        Raises:
            RunError: the trees read others.
        """
        missing = [name for name in self.names if name not in columns]
        if missing:
            raise RunError(f"the second stage reads {missing[0]!r}, which this graph does not have; train again.")
        table = torch.stack([columns[name][there] for name in self.names], dim=1)
        scores = torch.full(there.shape, -torch.inf)
        if len(table):
            found = self._trees.predict(table.numpy(), raw_score=True, num_threads=1)
            scores[there] = torch.from_numpy(np.asarray(found, dtype=np.float32))
        return scores


@dataclass(frozen=True, eq=False)
class Narrowed(Ranking):
    """Trees that read everything, over the best candidates of trees that are few and read links alone."""

    first_look: ByTrees
    trees: ByTrees

    def rank(self, lists: Lists, k: int = 1) -> Tensor:
        return self.rank_all(lists, [self.trees], k)[0]

    def rank_all(self, lists: Lists, trees: Sequence[ByTrees], k: int = 1) -> list[Tensor]:
        """Returns as `rank` does what several trees say, after one first look."""
        sight, there = self.trees.sight, lists.tails >= 0
        columns = link_columns(lists, sight)
        looked = self.first_look.rank_columns(columns, there)
        few, columns, order = narrowed(lists, columns, first_of(looked, there, max(NARROWED, k)))
        columns |= feature_columns(few.heads, few.tails, sight)
        nothing = torch.full(there.shape, -torch.inf)
        return [nothing.scatter(1, order, each.rank_columns(columns, few.tails >= 0)) for each in trees]


@dataclass(frozen=True, eq=False)
class ByScorer(Ranking):
    """The first scorer's scores of the best candidates of a cheaper ranking."""

    scorer: Scorer
    before: Ranking

    def rank(self, lists: Lists, k: int = 1) -> Tensor:
        return self.rank_best(lists, self.before.rank(lists, k), k)

    def rank_best(self, lists: Lists, before: Tensor, k: int = 1) -> Tensor:
        """Returns float32 [B, T], −inf where `before` [B, T] has no place among the best, which are k or more.

        Raises:
            DataError: scores are NaN, which a blend would take for the highest.
        """
        width = min(max(SHORTLIST, k), before.shape[1])
        best = before.sort(dim=1, descending=True, stable=True).indices[:, :width]
        tails = lists.tails.gather(1, best)
        device = self.scorer.device
        scores = self.scorer.score_tails(lists.heads.to(device), tails.to(device)).cpu()
        refuse_nan(scores, "candidates")
        return torch.full_like(before, -torch.inf).scatter_(1, best, scores)


@dataclass(frozen=True, eq=False)
class Blend(Ranking):
    """Two rankings by their places: what is high in either is high.

    Attributes:
        share: what the first of the two counts for, between 0 and 1.
    """

    one: Ranking
    other: Ranking
    share: float

    def rank(self, lists: Lists, k: int = 1) -> Tensor:
        first = self.one.rank(lists, k)
        other = self.other
        if isinstance(other, ByScorer) and other.before is self.one:  # whose scores are there already
            return blended(first, other.rank_best(lists, first, k), self.share)
        return blended(first, other.rank(lists, k), self.share)


def blended(one: Tensor, other: Tensor, share: float) -> Tensor:
    """Returns float32 [B, T] of two scores [B, T]; what has no score in one has no share of it."""
    found = share * _by_place(one) + (1 - share) * _by_place(other)
    return found.masked_fill((one == -torch.inf) & (other == -torch.inf), -torch.inf)


def _by_place(scores: Tensor) -> Tensor:
    return (1 / (places(scores).expm1() + BLEND_OFFSET)).masked_fill(scores == -torch.inf, 0.0)
