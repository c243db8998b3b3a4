"""The evaluator gives the same figures whatever its blocks, and keeps to them."""

import pytest
import torch
from metric_oracle import TableScorer, ogb_hits, ogb_mrr_list
from torch import Tensor

from headtail.errors import ConfigError, DataError
from headtail.evaluation.evaluator import evaluate
from headtail.nn.embedding_scorer import EmbeddingScorer
from headtail.nn.scorer import HadamardScorer

N, P, K, M = 40, 23, 17, 150
BLOCKS = [1, 2, 5, 16, 17, 18, 100, 2**18]


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
    wanted = ogb_mrr_list(scorer.table[positives[0], positives[1]], scorer.table[positives[0][:, None], tails])
    assert found == pytest.approx(wanted)
    assert scorer.largest <= max(2, block_pairs)  # a positive is scored with a rival at least


@pytest.mark.parametrize("block_pairs", BLOCKS)
def test_hits_do_not_depend_on_blocks(scorer: TableScorer, positives: Tensor, block_pairs: int) -> None:
    pairs = torch.randint(N, (2, M), generator=torch.Generator().manual_seed(2))
    found = evaluate(scorer, positives, pairs, "hits@30", block_pairs)
    own, rivals = (scorer.table[links[0], links[1]] for links in (positives, pairs))
    assert found == {f"hits@{k}": pytest.approx(ogb_hits(own, rivals, k)) for k in (20, 30, 50, 100)}
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


class Cramped(TableScorer):
    """Runs out of memory wherever it is asked for more than so many pairs."""

    def __init__(self, table: Tensor, pairs: int) -> None:
        super().__init__(table)
        self.pairs = pairs

    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        if heads.numel() > self.pairs:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().score_pairs(heads, tails)


CASES = pytest.mark.parametrize(("metric", "shape"), [("mrr", (P, K)), ("hits@50", (2, M))])


@CASES
@pytest.mark.parametrize("pairs", [2, 7, 40, 149])
def test_blocks_shrink_where_memory_does_not_last(
    scorer: TableScorer, positives: Tensor, metric: str, shape: tuple[int, int], pairs: int
) -> None:
    negatives, seen = torch.randint(N, shape), []
    small = Cramped(scorer.table, pairs)
    found = evaluate(small, positives, negatives, metric, progress=seen.append)
    assert found == evaluate(scorer, positives, negatives, metric)
    # Halved until it fits, then cut to whole rows of rivals.
    assert pairs / 4 <= small.largest <= pairs
    assert sum(seen) == (P * (K + 1) if metric == "mrr" else P + M)


@CASES
def test_where_no_pair_fits_it_says_what_to_do(positives: Tensor, metric: str, shape: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match=r"too little memory for ranking .* \(CUDA out of memory\).*--device cpu"):
        evaluate(Cramped(torch.zeros(N, N), 0), positives, torch.randint(N, shape), metric)


@pytest.mark.parametrize("block_pairs", [2, 30, 1000, None])
@pytest.mark.parametrize("directed", [True, False])
def test_nodes_that_are_alike_tie_whatever_the_blocks(
    directed: bool, block_pairs: int | None, device: torch.device
) -> None:
    """Equal representations must give equal scores: were the positive scored apart, its last bits could differ."""
    torch.manual_seed(0)
    table = torch.randn(N, 32)
    table[1:] = table[1]
    scorer = EmbeddingScorer(table.to(device), table.to(device), HadamardScorer(32, 3, 0.0).eval().to(device), directed)
    positives, tails = torch.stack([torch.zeros(P).long(), torch.randint(1, N, (P,))]), torch.randint(1, N, (P, K))
    assert evaluate(scorer, positives, tails, "mrr", block_pairs)["mrr"] == pytest.approx(1 / (1 + K / 2))


@pytest.mark.parametrize("directed", [True, False])
def test_scorers_with_a_way_of_their_own_are_ranked_alike(directed: bool, device: torch.device) -> None:
    """On a GPU tf32 may exchange neighbours in rank, so the mean is compared there."""
    generator = torch.Generator().manual_seed(0)
    heads, tails = (torch.randn(N, 16, generator=generator) for _ in range(2))
    torch.manual_seed(0)
    scorer = EmbeddingScorer(heads, tails, HadamardScorer(16, 3, 0.0).eval(), directed)
    everyone = torch.arange(N)
    table = scorer.score_pairs(everyone.repeat_interleave(N), everyone.repeat(N)).view(N, N)
    there = EmbeddingScorer(heads.to(device), tails.to(device), scorer.mlp.to(device), directed)
    positives, rivals = torch.randint(N, (2, P), generator=generator), torch.randint(N, (P, K), generator=generator)
    found, wanted = (evaluate(each, positives, rivals, "mrr")["mrr"] for each in (there, TableScorer(table)))
    assert found == pytest.approx(wanted, abs=1e-9 if device.type == "cpu" else 0.02)
    assert not torch.backends.cuda.matmul.allow_tf32


@CASES
@pytest.mark.parametrize("what", ["positives", "negatives"])
def test_few_nan_scores_are_counted(metric: str, shape: tuple[int, int], what: str) -> None:
    table = torch.rand(N, N)
    table[0, 0] = torch.nan
    positives, negatives = torch.ones(2, P).long(), torch.ones(shape).long()
    (positives if what == "positives" else negatives)[:, 3] = 0
    if metric == "mrr" and what == "negatives":
        positives[0, 5:] = 0  # the heads of the rivals
        bad, scores = P - 5, P * K
    else:
        bad, scores = 1, P if what == "positives" else M
    with pytest.raises(DataError, match=f"^{bad} of {scores} scores of the {what} are not numbers"):
        evaluate(TableScorer(table), positives, negatives, metric, block_pairs=20)


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
