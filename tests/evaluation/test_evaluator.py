"""The evaluator gives the same figures whatever its blocks, and keeps to them."""

import pytest
import torch
from torch import Tensor

from headtail.contract import PairScorer
from headtail.errors import ConfigError, DataError
from headtail.evaluation.evaluator import evaluate
from headtail.evaluation.metrics import hits, hits_shared, mrr, ranks

N, P, K, M = 40, 23, 17, 150
BLOCKS = [1, 2, 5, 16, 17, 18, 100, 2**18]


class TableScorer(PairScorer):
    """Looks scores up in a table [N, N] and remembers the largest block it was asked for."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.num_nodes, self.device = table, table.shape[0], table.device
        self.largest = 0

    def score(self, heads: Tensor, tails: Tensor) -> Tensor:
        assert heads.shape == tails.shape
        assert heads.dtype == tails.dtype == torch.long
        self.largest = max(self.largest, heads.numel())
        return self.table[heads, tails]


@pytest.fixture(params=[3, 10_000], ids=["ties", "distinct"])
def scorer(request: pytest.FixtureRequest) -> TableScorer:
    torch.manual_seed(0)
    return TableScorer(torch.randint(request.param, (N, N)).float())


@pytest.fixture
def positives() -> Tensor:
    return torch.randint(N, (2, P), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("block_pairs", BLOCKS)
def test_mrr_does_not_depend_on_blocks(scorer: TableScorer, positives: Tensor, block_pairs: int) -> None:
    tails = torch.randint(N, (P, K), generator=torch.Generator().manual_seed(2))
    found = evaluate(scorer, positives, tails, "mrr", block_pairs)
    wanted = ranks(scorer.table[positives[0], positives[1]], scorer.table[positives[0][:, None], tails])
    assert found == {"mrr": mrr(wanted)} | {f"hits@{k}": hits(wanted, k) for k in (1, 3, 10)}
    assert scorer.largest <= block_pairs


@pytest.mark.parametrize("block_pairs", BLOCKS)
def test_hits_do_not_depend_on_blocks(scorer: TableScorer, positives: Tensor, block_pairs: int) -> None:
    pairs = torch.randint(N, (2, M), generator=torch.Generator().manual_seed(2))
    found = evaluate(scorer, positives, pairs, "hits@30", block_pairs)
    own, rivals = (scorer.table[links[0], links[1]] for links in (positives, pairs))
    assert found == {f"hits@{k}": pytest.approx(hits_shared(own, rivals, k)) for k in (20, 30, 50, 100)}
    assert scorer.largest <= block_pairs


def test_fewer_negatives_than_k_make_all_hits(scorer: TableScorer, positives: Tensor) -> None:
    found = evaluate(scorer, positives, torch.zeros(2, 60, dtype=torch.long), "hits@50")
    assert found["hits@100"] == 1.0
    assert evaluate(scorer, positives, torch.zeros(2, 0, dtype=torch.long), "hits@50")["hits@20"] == 1.0


def test_the_metric_decides_how_negatives_are_read() -> None:
    # Two positives and [2, 3] negatives: three pairs for hits, three tails each for mrr.
    table = torch.arange(16.0).view(4, 4)
    positives, negatives = torch.tensor([[0, 1], [3, 0]]), torch.tensor([[0, 1, 2], [1, 2, 3]])
    assert evaluate(TableScorer(table), positives, negatives, "mrr")["mrr"] == (1 + 1 / 4) / 2
    assert evaluate(TableScorer(table), positives, negatives, "hits@3")["hits@3"] == 1.0
    assert evaluate(TableScorer(table), positives, negatives, "hits@2")["hits@2"] == 0.0


def test_narrow_integers_are_accepted(scorer: TableScorer, positives: Tensor) -> None:
    tails = torch.randint(N, (P, K))
    assert evaluate(scorer, positives.int(), tails.int(), "mrr") == evaluate(scorer, positives, tails, "mrr")


@pytest.mark.parametrize(("metric", "shape"), [("mrr", (P, K)), ("hits@50", (2, M))])
def test_progress_counts_every_pair(
    scorer: TableScorer, positives: Tensor, metric: str, shape: tuple[int, int]
) -> None:
    seen: list[int] = []
    negatives = torch.randint(N, shape)
    evaluate(scorer, positives, negatives, metric, block_pairs=50, progress=seen.append)
    wanted = P * (K + 1) if metric == "mrr" else P + M
    assert sum(seen) == wanted


@pytest.mark.parametrize(("metric", "negatives"), [("mrr", (P, K)), ("hits@50", (2, M))])
def test_nan_scores_are_refused(positives: Tensor, metric: str, negatives: tuple[int, int]) -> None:
    scorer = TableScorer(torch.full((N, N), float("nan")))
    with pytest.raises(DataError, match="not numbers"):
        evaluate(scorer, positives, torch.randint(N, negatives), metric)


@pytest.mark.parametrize(
    ("positives", "negatives", "metric", "message"),
    [
        (torch.zeros(2, 3).long(), torch.zeros(2, 5).long(), "mrr", r"must be \[3, K\] for 3 positives"),
        (torch.zeros(2, 3).long(), torch.zeros(3, 5).long(), "hits@20", r"must be \[2, M\], not \[3, 5\]"),
        (torch.zeros(2, 0).long(), torch.zeros(0, 5).long(), "mrr", "non-empty"),
        (torch.zeros(3).long(), torch.zeros(3, 5).long(), "mrr", r"not \[3\]"),
        (torch.full((2, 3), N), torch.zeros(3, 5).long(), "mrr", f"nodes 0 to {N - 1}"),
        (torch.zeros(2, 3).long(), torch.full((3, 5), -1), "mrr", "negatives name the nodes -1"),
        (torch.zeros(2, 3), torch.zeros(3, 5).long(), "mrr", "integers"),
    ],
)
def test_misfit_input_is_refused(
    scorer: TableScorer, positives: Tensor, negatives: Tensor, metric: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        evaluate(scorer, positives, negatives, metric)


def test_unknown_metric_is_refused(scorer: TableScorer, positives: Tensor) -> None:
    with pytest.raises(ConfigError, match="did you mean 'mrr'"):
        evaluate(scorer, positives, torch.zeros(P, K).long(), "mr")
