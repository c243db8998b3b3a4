"""Evaluation by several ranks gives what one process gives, however few links there are to share."""

import pytest
import torch
from torch import Tensor

import headtail.evaluation.evaluator
import headtail.serving.across
from headtail.contract import Scorer
from headtail.errors import DataError
from headtail.evaluation.evaluator import evaluate
from headtail.graph.csr import CSR
from headtail.ranks import Ranks
from headtail.serving.answers import Answers
from headtail.serving.topk import TopK, top_k
from random_graphs import random_links
from threads_as_ranks import current, on_ranks

NODES = 23


class Table(Scorer):
    """Scores from a table with many ties."""

    num_nodes, device = NODES, torch.device("cpu")

    def __init__(self, bad: int | None = None) -> None:
        self.scores = torch.randint(9, (NODES, NODES), generator=torch.Generator().manual_seed(0)).float()
        if bad is not None:
            self.scores[bad] = torch.nan

    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        return self.scores[heads, tails]


@pytest.fixture(autouse=True)
def _ranks_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (headtail.evaluation.evaluator, headtail.serving.across):
        monkeypatch.setattr(module, "current", current)


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("links", [1, 3, 40])
@pytest.mark.parametrize(("metric", "negatives"), [("mrr", 7), ("hits@3", 2), ("hits@50", 60), ("hits@50", 40)])
def test_metrics_are_those_of_one_process(size: int, links: int, metric: str, negatives: int) -> None:
    positives = random_links(NODES, links, directed=True, seed=1)
    generator = torch.Generator().manual_seed(2)
    shape = (links, negatives) if metric == "mrr" else (2, negatives)
    others = torch.randint(NODES, shape, generator=generator)
    wanted = evaluate(Table(), positives, others, metric)
    assert on_ranks(size, lambda ranks: evaluate(Table(), positives, others, metric, block_pairs=11)) == [wanted] * size


def test_a_rank_whose_scores_are_no_numbers_says_so() -> None:
    positives = torch.arange(20).view(2, 10)
    with pytest.raises(DataError, match="NaN"):
        on_ranks(2, lambda ranks: evaluate(Table(bad=9), positives, positives, "hits@3"))


@pytest.mark.parametrize("heads", [0, 1, 2, NODES])
def test_top_k_is_that_of_one_process(heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headtail.serving.across, "HEADS_AT_ONCE", 4)
    asked = torch.arange(NODES).flip(0)[:heads]
    known = CSR.from_links(random_links(NODES, 150, directed=True), NODES)
    told: list[int] = []

    def joined(blocks: list[TopK]) -> list[list[object]]:
        return [[*block] for one in blocks for block in zip(*(part.tolist() for part in one), strict=True)]

    def answer(ranks: Ranks) -> list[list[object]]:
        report = told.append if ranks.leads else None
        return joined(list(Answers.exactly(Table()).best(asked, 20, known, progress=report)))

    wanted = joined(list(top_k(Table(), asked, 20, known=known)))
    assert on_ranks(3, answer) == [wanted] * 3
    assert sum(told) == heads


def test_wrong_arguments_are_refused_at_once() -> None:
    with pytest.raises(DataError, match="k must be at least 1"):
        on_ranks(2, lambda ranks: Answers.exactly(Table()).best(torch.arange(3), 0))
