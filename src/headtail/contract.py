"""The one contract of every method: learn from a task, then score pairs of nodes.

AML, its symmetric and MLP relatives, heuristics and all later methods speak these verbs, so one evaluator,
one recommender and one shared test case serve them all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from headtail.graph.view import GraphView


class PairScorer(ABC):
    """Scores pairs as seen from one view of the graph; a higher score is a likelier link."""

    num_nodes: int
    device: torch.device

    @abstractmethod
    def score(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Returns float32 [P], the scores of the pairs (heads[p], tails[p])."""

    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        """Returns float32 [B, last − first], every head against the tails first … last − 1.

        Methods override this where whole rows are cheaper than pairs.
        """
        tails = torch.arange(first, last, device=heads.device)
        pairs = self.score(heads.repeat_interleave(tails.numel()), tails.repeat(heads.numel()))
        return pairs.view(heads.numel(), tails.numel())


# Scores the validation links and returns metrics, the first of which is the one to maximise.
Validate = Callable[[PairScorer], dict[str, float]]


class Method(ABC):
    """A way to predict links: learn, then score."""

    def fit(self, validate: Validate) -> object:
        """Learns from the training links, judging itself with `validate`; methods without parameters learn nothing."""
        return None

    @abstractmethod
    def scorer(self, view: GraphView) -> PairScorer:
        """Returns a scorer that may use the links of `view` and nothing else as evidence."""
