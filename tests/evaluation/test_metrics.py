"""What the evaluator calls ranks and hits, against the definitions of the Open Graph Benchmark and brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_oracle import TableScorer, ogb_hits, ogb_mrr_list
from torch import Tensor

from headtail.errors import ConfigError, DataError
from headtail.evaluation.evaluator import evaluate, ranks_in_blocks
from headtail.evaluation.metrics import Metric, hits, mrr


def ranks(positives: Tensor, negatives: Tensor) -> Tensor:
    """Returns the ranks of positives [P] among their own negatives [P, K], as the evaluator finds them."""
    count, rivals = negatives.shape
    table = torch.zeros(max(count, rivals + 1), rivals + 1)
    table[:count] = torch.cat([positives[:, None], negatives], dim=1)
    links = torch.stack([torch.arange(count), torch.zeros(count, dtype=torch.long)])
    tails = torch.arange(1, rivals + 1).expand(count, rivals)
    return ranks_in_blocks(TableScorer(table), links, tails, 64, lambda _pairs: None)


def hits_shared(positives: Tensor, negatives: Tensor, k: int) -> float:
    """Returns Hits@k of positives [P] among shared negatives [M], as the evaluator finds it."""
    size = max(len(positives), len(negatives))
    table = torch.zeros(size, size)
    table[0, : len(positives)], table[1, : len(negatives)] = positives, negatives
    pairs = [
        torch.stack([torch.full((len(of),), row), torch.arange(len(of))])
        for row, of in enumerate((positives, negatives))
    ]
    return evaluate(TableScorer(table), *pairs, f"hits@{k}")[f"hits@{k}"]


def brute_force_rank(positive: float, negatives: list[float]) -> float:
    """The mean place of the positive over the orders of its ties: first among them, and last."""
    order = sorted([*negatives, positive], reverse=True)
    places = [place for place, score in enumerate(order, start=1) if score == positive]
    return (places[0] + places[-1]) / 2


@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_ranks_agree_with_ogb_also_with_ties(levels: int) -> None:
    rng = np.random.default_rng(levels)
    positives, negatives = (torch.from_numpy(rng.integers(levels, size=size)).float() for size in (200, (200, 30)))
    found = ranks(positives, negatives)
    wanted = ogb_mrr_list(positives, negatives)
    assert mrr(found) == pytest.approx(wanted["mrr"], rel=1e-6)
    for k in (1, 3, 10):
        assert hits(found, k) == pytest.approx(wanted[f"hits@{k}"], rel=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(-2, 2), st.lists(st.integers(-2, 2), max_size=8))
def test_rank_is_the_middle_of_the_tied_places(positive: int, negatives: list[int]) -> None:
    found = ranks(torch.tensor([float(positive)]), torch.tensor([negatives], dtype=torch.float32))
    assert found.item() == brute_force_rank(positive, list(negatives))


@pytest.mark.parametrize("levels", [3, 50, 10_000])
@pytest.mark.parametrize("k", [1, 7, 40, 41])
def test_hits_shared_agree_with_ogb_also_with_ties(levels: int, k: int) -> None:
    rng = np.random.default_rng(levels)
    positives, negatives = (torch.from_numpy(rng.integers(levels, size=size)).float() for size in (100, 40))
    found = hits_shared(positives, negatives, k)
    assert found == pytest.approx(ogb_hits(positives, negatives, k))


def test_constant_scores_earn_the_middle_rank_and_no_hits() -> None:
    assert ranks(torch.zeros(4), torch.zeros(4, 10)).tolist() == [6.0] * 4
    assert hits_shared(torch.zeros(4), torch.zeros(10), 10) == 0.0


def test_infinite_scores_are_ranked() -> None:
    inf = float("inf")
    assert ranks(torch.tensor([inf, -inf]), torch.tensor([[0.0, inf], [0.0, -inf]])).tolist() == [1.5, 2.5]


@pytest.mark.parametrize("where", ["positives", "negatives"])
def test_nan_is_refused(where: str) -> None:
    positives, negatives = torch.zeros(3), torch.zeros(3, 4)
    {"positives": positives, "negatives": negatives}[where].view(-1)[1] = float("nan")
    with pytest.raises(DataError, match=rf"1 of \d+ scores of the {where} are not numbers"):
        ranks(positives, negatives)
    with pytest.raises(DataError, match=where):
        hits_shared(positives, negatives.view(-1), 2)


@pytest.mark.parametrize(("name", "k"), [("mrr", None), ("hits@1", 1), ("hits@50", 50)])
def test_metric_names_are_read_and_written(name: str, k: int | None) -> None:
    assert Metric.parse(name) == Metric(k)
    assert Metric(k).name == name


@pytest.mark.parametrize("name", ["", "hit@50", "hits@0", "hits@", "hits@5x", "Hits@50", "auc"])
def test_unknown_metric_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown metric"):
        Metric.parse(name)


def test_unknown_metric_gets_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean 'hits@50'"):
        Metric.parse("hit@50")


def test_asked_k_is_among_the_reported() -> None:
    assert Metric.parse("hits@50").reported_ks == (20, 50, 100)
    assert Metric.parse("hits@30").reported_ks == (20, 30, 50, 100)
