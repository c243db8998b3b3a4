"""Top-k against a full sort, for all block sizes, with ties and known links."""

from itertools import product

import pytest
import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.errors import ConfigError, DataError
from headtail.graph.csr import CSR
from headtail.serving.topk import MIN_BLOCK_HEADS, PAIR_BUDGET, TopK, block_sizes, top_k

N = 9
INF = float("inf")


class TableScorer(Scorer):
    """Looks scores up in a table [N, N]."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.num_nodes, self.device = table, table.shape[0], table.device

    def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
        return self.table[heads, tails]


def gathered(blocks: list[TopK]) -> TopK:
    return TopK(*(torch.cat(parts) for parts in zip(*blocks, strict=True)))


def brute_force(table: Tensor, head: int, k: int, known: set[int]) -> tuple[list[int], list[float]]:
    scores = table[head].tolist()
    candidates = [tail for tail in range(len(scores)) if tail != head and tail not in known]
    best = sorted(candidates, key=lambda tail: (-scores[tail], tail))[:k]
    padding = k - len(best)
    return best + [-1] * padding, [scores[tail] for tail in best] + [-INF] * padding


def table_of(kind: str) -> Tensor:
    torch.manual_seed(3)
    if kind == "ties":
        return torch.randint(-1, 2, (N, N)).float()
    if kind == "constant":
        return torch.zeros(N, N)
    if kind == "infinite":
        return torch.tensor([-INF, -1.0, INF])[torch.randint(3, (N, N))]
    return torch.randn(N, N) * torch.logspace(-40, 38, N)


@pytest.fixture
def known() -> CSR:
    links = torch.randint(N, (2, 30), generator=torch.Generator().manual_seed(4))
    full = torch.stack([torch.full((N,), 5), torch.arange(N)])
    return CSR.from_links(torch.cat([links, full], dim=1), N)


@pytest.mark.parametrize("kind", ["distinct", "ties", "constant", "infinite"])
@pytest.mark.parametrize("k", [1, 4, N - 1])
@pytest.mark.parametrize("with_known", [False, True])
def test_equals_a_full_sort_for_all_blocks(
    kind: str, k: int, with_known: bool, known: CSR, device: torch.device
) -> None:
    table = table_of(kind)
    heads = torch.tensor([7, 0, 5, 8, 7, 3])
    barred = known if with_known else None
    rows = [set(known.block(h, h + 1).col.tolist()) if with_known else set() for h in heads.tolist()]
    wanted = [brute_force(table, h, k, row) for h, row in zip(heads.tolist(), rows, strict=True)]
    scorer = TableScorer(table.to(device))
    for block_heads, block_tails in product((1, 4), (None, *range(1, N + 1))):
        blocks = top_k(scorer, heads, k, known=barred, block_heads=block_heads, block_tails=block_tails)
        found = gathered(list(blocks))
        assert found.heads.tolist() == heads.tolist()
        assert found.tails.tolist() == [tails for tails, _ in wanted]
        assert found.scores.tolist() == [scores for _, scores in wanted]


class Cramped(TableScorer):
    """Runs out of memory wherever it is asked for more than so many pairs."""

    def __init__(self, table: Tensor, pairs: int) -> None:
        super().__init__(table)
        self.pairs, self.shapes = pairs, set[tuple[int, int]]()

    def score_rows(self, heads: Tensor, first: int, last: int) -> Tensor:
        if heads.numel() * (last - first) > self.pairs:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        self.shapes.add((heads.numel(), last - first))
        return super().score_rows(heads, first, last)


@pytest.mark.parametrize("pairs", [1, 3, N, 3 * N])
@pytest.mark.parametrize("block_heads", [None, 6])
def test_blocks_shrink_where_memory_does_not_last(pairs: int, block_heads: int | None, known: CSR) -> None:
    heads, scorer = torch.tensor([7, 0, 5, 8, 7, 3, 1]), Cramped(table_of("ties"), pairs)
    (wanted,) = top_k(TableScorer(scorer.table), heads, 4, known=known)
    done: list[int] = []
    found = gathered(list(top_k(scorer, heads, 4, known=known, block_heads=block_heads, progress=done.append)))
    assert all(torch.equal(mine, its) for mine, its in zip(found, wanted, strict=True))
    assert sum(done) == 7
    # Whole rows for as long as one fits, since the tails are then read for several heads.
    assert all(height == 1 or width == N for height, width in scorer.shapes)


def test_where_no_pair_fits_it_says_what_to_do() -> None:
    blocks = top_k(Cramped(table_of("ties"), 0), torch.arange(3), 2)
    with pytest.raises(ConfigError, match=r"for finding the best tails \(CUDA out of memory\).*--device cpu"):
        list(blocks)


def test_negative_zero_ties_with_zero() -> None:
    table = torch.zeros(4, 4)
    table[0] = torch.tensor([9.0, -0.0, 0.0, -0.0])
    (found,) = top_k(TableScorer(table), torch.tensor([0]), 3)
    assert found.tails.tolist() == [[1, 2, 3]]


def test_head_without_candidates_is_padded(known: CSR) -> None:
    (found,) = top_k(TableScorer(table_of("distinct")), torch.tensor([5]), 2, known=known)
    assert found.tails.tolist() == [[-1, -1]]
    assert found.scores.tolist() == [[-INF, -INF]]


def test_results_stream_and_report_progress() -> None:
    done: list[int] = []
    blocks = top_k(TableScorer(table_of("ties")), torch.arange(N), 2, block_heads=5, progress=done.append)
    assert next(blocks).heads.tolist() == [0, 1, 2, 3, 4]
    assert [block.heads.numel() for block in blocks] == [4]
    assert done == [5, 4]


def test_no_heads_no_blocks() -> None:
    assert list(top_k(TableScorer(table_of("ties")), torch.empty(0, dtype=torch.long), 2)) == []


@pytest.mark.parametrize("num_nodes", [2, 1000, 70_000, 3_000_000, 100_000_000])
def test_default_blocks_keep_to_the_budget(num_nodes: int) -> None:
    heads, tails = block_sizes(num_nodes, num_nodes)
    assert heads * tails <= PAIR_BUDGET
    assert heads >= min(MIN_BLOCK_HEADS, num_nodes)
    assert tails <= num_nodes


def test_one_head_of_a_large_graph_gets_wide_blocks() -> None:
    assert block_sizes(1, 10**8) == (1, PAIR_BUDGET)


@pytest.mark.parametrize(
    ("heads", "k", "message"),
    [
        ([0], N, rf"k = {N} tails .* only {N - 1} other nodes"),
        ([0], 0, "at least 1"),
        ([N], 1, f"nodes 0 to {N - 1}"),
        ([-1], 1, "nodes -1 to -1"),
        ([[0]], 1, "one-dimensional"),
    ],
)
def test_misfit_arguments_are_refused_at_the_call(heads: list[int], k: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        top_k(TableScorer(table_of("ties")), torch.tensor(heads), k)


def test_known_links_of_another_graph_are_refused() -> None:
    other = CSR.from_links(torch.tensor([[0], [1]]), N + 1)
    with pytest.raises(DataError, match=f"{N + 1} × {N + 1}"):
        top_k(TableScorer(table_of("ties")), torch.tensor([0]), 1, known=other)


def test_few_nan_scores_are_counted() -> None:
    table = torch.rand(N, N)
    table[2, 4] = table[2, 8] = torch.nan
    with pytest.raises(DataError, match=f"^2 of {3 * N} scores of the candidates are not numbers"):
        list(top_k(TableScorer(table), torch.arange(3), 1, block_tails=2))


def test_nan_scores_are_refused() -> None:
    with pytest.raises(DataError, match="NaN"):
        list(top_k(TableScorer(torch.full((N, N), float("nan"))), torch.tensor([0]), 1))
