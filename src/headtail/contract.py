"""The one contract of every method: learn from a task, then score pairs of nodes.

AML, its symmetric and MLP relatives, heuristics and all later methods speak these verbs, so one evaluator,
one recommender and one shared test case serve them all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headtail.graph.kept import Kept, State
from headtail.graph.view import GraphView, ServingView


class Scorer(ABC):
    """Scores pairs as seen from one view of the graph; a higher score is a likelier link.

    It keeps nothing of what it is asked, so many threads may ask it.

    Attributes:
        pair_bytes: what `score_pairs` and `score_tails` hold of a pair, about.
        cell_bytes: what `score_rows`, and a choice among its scores, hold of a cell, about.
        pair_microseconds: what a pair takes, about: what is asked of a scorer by default is bounded by it, not by a
            clock, so that it is the same on every machine.
        sees_held_out: whether it was made from a view of all links, for answering; evaluation refuses it then. Who
            makes a scorer of others hands this on.
    """

    num_nodes: int
    device: torch.device
    pair_bytes: int = 64
    cell_bytes: int = 64
    pair_microseconds: float = 0.03
    sees_held_out: bool = False

    @abstractmethod
    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Returns float32 [P], the scores of the pairs (heads[p], tails[p])."""

    def score_tails(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Returns float32 [B, T] of heads [B] and tails [B, T], own tails for every head; −1 is none and scores −inf.

        Methods override this where a head's part of the work can be done once.
        """
        named = tails.clamp(min=0).reshape(-1)
        scores = self.score_pairs(heads.repeat_interleave(tails.shape[1]), named).view_as(tails)
        return scores.masked_fill_(tails < 0, -torch.inf)

    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        """Returns float32 [B, last − first], every head against the tails first … last − 1.

        Methods override this where whole rows are cheaper than pairs.
        """
        tails = torch.arange(first, last, device=heads.device)
        pairs = self.score_pairs(heads.repeat_interleave(tails.numel()), tails.repeat(heads.numel()))
        return pairs.view(heads.numel(), tails.numel())

    def remembering(self, memory: dict[Any, Any]) -> "Scorer":
        """Returns a scorer that looks up in `memory` what it was asked before, for who asks the same pairs often."""
        return self

    def state(self) -> State:
        """Returns what a run keeps of it, for `Method.reopen`; {}: it is quick to encode again."""
        return {}


# Scores the validation links and returns metrics, the first of which is the one to maximise.
Validate = Callable[[Scorer], dict[str, float]]


class Method(ABC):
    """A way to predict links: learn, then score."""

    def fit(self, validate: Validate) -> object:
        """Learns from the training links, judging itself with `validate`; methods without parameters learn nothing."""
        return None

    def scorer(self, view: GraphView, kept: Kept | None = None) -> Scorer:
        """Returns a scorer that may use the links of `view` and nothing else as evidence.

        Where a run `kept` the state of this very scorer, it need not be encoded.
        """
        scorer = self.encode(view) if kept is None else self.reopen(view, kept)
        scorer.sees_held_out = isinstance(view, ServingView)
        return scorer

    @abstractmethod
    def encode(self, view: GraphView) -> Scorer:
        """Makes what `scorer` returns."""

    def reopen(self, view: GraphView, kept: Kept) -> Scorer:
        """Makes the same of the state that was kept, or by encoding where there is none."""
        return self.encode(view)
