"""Rankings of candidates: by one source, by the first scorer, by what the second stage learned, or by two of these."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.evaluation.nan import refuse_nan
from headtail.serving.candidates import Lists
from headtail.serving.columns import columns_of, first_of, standing, table_of
from headtail.serving.network import Network, as_logarithm
from headtail.serving.sight import Sight
from headtail.serving.trees_text import plain_trees

if TYPE_CHECKING:
    from lightgbm import Booster

# Trees that look at every candidate, and the candidates of a head that all the others look at.
LOOKS, NARROWED = 100, 150
# Of what is blended, beside which the scores of all rankings vary much.
LEAST_VARIANCE = 1e-12
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
class ByColumns(Ranking):
    """What was learned over columns of the candidates.

    Attributes:
        names: the columns it reads.
        sight: where columns are read off.
    """

    names: tuple[str, ...]
    sight: Sight

    def rank(self, lists: Lists, k: int = 1) -> Tensor:
        return self.rank_columns(columns_of(lists, self.sight, self.names), lists.tails >= 0, k)

    @abstractmethod
    def rank_columns(self, columns: Mapping[str, Tensor], there: Tensor, k: int = 1) -> Tensor:
        """Returns what `rank` does of columns that are read already; `there` bool [B, T] tells what is a candidate.

        Raises:
            RunError: it reads others.
        """


@dataclass(frozen=True, eq=False)
class ByTrees(ByColumns):
    """Boosted trees. The first few look at every candidate, the others at the best of these.

    Attributes:
        model: the trees, as `plain_trees` returns them.
    """

    model: str

    @cached_property
    def _first(self) -> "Booster":
        from lightgbm import Booster

        return Booster(model_str=plain_trees(self.model, len(self.names), LOOKS))

    @cached_property
    def _others(self) -> "Booster | None":
        """A model of its own: threads that ask one for different trees at a time get those of each other."""
        from lightgbm import Booster

        few = Booster(model_str=self.model).num_trees() <= LOOKS
        return None if few else Booster(model_str=plain_trees(self.model, len(self.names), first=LOOKS))

    def rank_columns(self, columns: Mapping[str, Tensor], there: Tensor, k: int = 1) -> Tensor:
        found = self._say(self._first, columns, there)
        if self._others is None:
            return found
        best = first_of(found, there, max(NARROWED, k))
        return (found + self._say(self._others, columns, best)).masked_fill(~best, -torch.inf)

    def _say(self, trees: "Booster", columns: Mapping[str, Tensor], there: Tensor) -> Tensor:
        """Returns float32 [B, T], what trees add up to; −inf where nothing is `there`."""
        table = table_of(columns, self.names, there)
        scores = torch.full(there.shape, -torch.inf)
        if len(table):
            found = trees.predict(table.numpy(), raw_score=True, num_threads=1)
            scores[there] = torch.from_numpy(np.asarray(found, dtype=np.float32))
        return scores


@dataclass(frozen=True, eq=False)
class ByNetwork(ByColumns):
    """A small network over the columns and where a candidate stands by each among the head's others."""

    network: Network

    def rank_columns(self, columns: Mapping[str, Tensor], there: Tensor, k: int = 1) -> Tensor:
        logs = {name: as_logarithm(columns[name]) for name in self.names if name in columns}
        stands = {name: standing(log, there) for name, log in logs.items()}
        scores = torch.full(there.shape, -torch.inf)
        scores[there] = self.network.score(table_of(logs, self.names, there), table_of(stands, self.names, there))
        return scores


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
    """Two rankings by how far above the mean of a head's best candidates they put each.

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
            return blended(first, other.rank_best(lists, first, k), self.share, k)
        return blended(first, other.rank(lists, k), self.share, k)


def blended(one: Tensor, other: Tensor, share: float, k: int = 1) -> Tensor:
    """Returns float32 [B, T] of two scores [B, T]; what is none of the best of one stands with the last of these."""
    found = share * _among_best(one, k) + (1 - share) * _among_best(other, k)
    return found.masked_fill((one == -torch.inf) & (other == -torch.inf), -torch.inf)


def _among_best(scores: Tensor, k: int) -> Tensor:
    best = first_of(scores, scores > -torch.inf, max(NARROWED, k))
    stands = standing(scores, best, least=LEAST_VARIANCE)
    last = stands.masked_fill(~best, torch.inf).amin(dim=1, keepdim=True)
    return stands.where(best, last.nan_to_num(posinf=0.0))
