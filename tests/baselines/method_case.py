"""The shared case of every method: a subclass of `MethodCase` with a `method` fixture tests the contract."""

import pytest
import torch
from torch import Tensor

from headtail.contract import Method
from headtail.graph.view import GraphView

NODES, LINKS, PAIRS = 30, 90, 200


def random_view(
    directed: bool, seed: int = 0, nodes: int = NODES, links: int = LINKS, dated: bool = False
) -> GraphView:
    """Returns a graph without self-loops or duplicates whose last two nodes have no links."""
    generator = torch.Generator().manual_seed(seed)
    cells = torch.ones(nodes - 2, nodes - 2).triu(1)
    if directed:
        cells = cells + cells.T
    pairs = cells.nonzero().T
    chosen = torch.randperm(pairs.shape[1], generator=generator)[:links]
    times = torch.randint(links, (links,), generator=generator) if dated else None
    return GraphView(nodes, directed, pairs[:, chosen], times)


def random_pairs(seed: int = 1) -> tuple[Tensor, Tensor]:
    """Returns heads and tails [PAIRS] over all nodes, the ones without links included."""
    heads, tails = torch.randint(NODES, (2, PAIRS), generator=torch.Generator().manual_seed(seed))
    return heads, tails


class MethodCase:
    """What holds for every method. Subclasses override the `method` fixture, and may choose other views."""

    # How far score and score_rows, and two runs, may differ relative to the score.
    tolerance = 1e-6

    @pytest.fixture
    def method(self) -> Method:
        raise NotImplementedError("give the case a `method` fixture")

    @pytest.fixture(params=[True, False], ids=["directed", "undirected"])
    def view(self, request: pytest.FixtureRequest) -> GraphView:
        return self.view_of(request.param)

    def view_of(self, directed: bool) -> GraphView:
        return random_view(directed)

    def close(self, found: Tensor, wanted: Tensor) -> None:
        torch.testing.assert_close(found, wanted, rtol=self.tolerance, atol=self.tolerance)

    def test_scores_are_one_float_per_pair(self, method: Method, view: GraphView) -> None:
        scorer = method.scorer(view)
        scores = scorer.score_pairs(*random_pairs())
        assert scorer.num_nodes == NODES
        assert scores.shape == (PAIRS,)
        assert scores.dtype == torch.float32
        assert torch.isfinite(scores).all()

    def test_no_pairs_no_scores(self, method: Method, view: GraphView) -> None:
        nothing = torch.empty(0, dtype=torch.long)
        scorer = method.scorer(view)
        assert scorer.score_pairs(nothing, nothing).shape == (0,)
        assert scorer.score_rows(nothing, 0, NODES).shape == (0, NODES)

    def test_pairs_do_not_influence_each_other(self, method: Method, view: GraphView) -> None:
        heads, tails = random_pairs()
        scorer = method.scorer(view)
        order = torch.randperm(PAIRS, generator=torch.Generator().manual_seed(5))
        self.close(scorer.score_pairs(heads[order], tails[order]), scorer.score_pairs(heads, tails)[order])
        self.close(scorer.score_pairs(heads[:7], tails[:7]), scorer.score_pairs(heads, tails)[:7])

    @pytest.mark.parametrize(("first", "last"), [(0, NODES), (0, 1), (7, 19), (NODES - 3, NODES), (4, 4)])
    def test_rows_equal_pairs(self, method: Method, view: GraphView, first: int, last: int) -> None:
        scorer = method.scorer(view)
        heads = torch.tensor([3, NODES - 1, 0, 3, 17])
        rows = scorer.score_rows(heads, first, last)
        tails = torch.arange(first, last)
        pairs = scorer.score_pairs(heads.repeat_interleave(last - first), tails.repeat(5))
        assert rows.dtype == torch.float32
        self.close(rows, pairs.view(5, last - first))

    def test_tails_equal_pairs(self, method: Method, view: GraphView) -> None:
        scorer = method.scorer(view)
        heads, tails = torch.tensor([3, NODES - 1, 0]), torch.tensor([[0, 1, 2, 28], [5, -1, 7, 7], [29, 4, -1, -1]])
        found = scorer.score_tails(heads, tails)
        assert found.shape == tails.shape
        assert found.dtype == torch.float32
        assert torch.equal(found == -torch.inf, tails < 0)
        pairs = scorer.score_pairs(heads.repeat_interleave(4), tails.clamp(min=0).reshape(-1)).view_as(tails)
        self.close(found[tails >= 0], pairs[tails >= 0])
        assert scorer.score_tails(heads[:0], tails[:0]).shape == (0, 4)

    def test_scores_are_deterministic(self, method: Method, view: GraphView) -> None:
        heads, tails = random_pairs()
        first, second = method.scorer(view), method.scorer(view)
        assert torch.equal(first.score_pairs(heads, tails), first.score_pairs(heads, tails))
        self.close(first.score_pairs(heads, tails), second.score_pairs(heads, tails))

    def test_order_of_links_does_not_matter(self, method: Method, view: GraphView) -> None:
        times = None if view.times is None else view.times.flip(0)
        flipped = GraphView(view.num_nodes, view.directed, view.links.flip(1), times)
        self.close(
            method.scorer(flipped).score_pairs(*random_pairs()), method.scorer(view).score_pairs(*random_pairs())
        )

    def test_links_outside_the_view_leave_no_trace(self, method: Method, view: GraphView) -> None:
        before = method.scorer(view).score_pairs(*random_pairs())
        more = view.with_links(torch.tensor([[0, 1, 28], [28, 29, 29]]))
        method.scorer(more).score_pairs(*random_pairs())
        self.close(method.scorer(view).score_pairs(*random_pairs()), before)

    def test_links_are_not_changed(self, method: Method, view: GraphView) -> None:
        links = view.links.clone()
        method.scorer(view).score_pairs(*random_pairs())
        assert torch.equal(view.links, links)

    def test_undirected_scores_are_symmetric(self, method: Method) -> None:
        scorer = method.scorer(self.view_of(directed=False))
        heads, tails = random_pairs()
        self.close(scorer.score_pairs(heads, tails), scorer.score_pairs(tails, heads))

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_scores_come_back_on_the_device_of_the_pairs(self, method: Method, view: GraphView) -> None:
        heads, tails = random_pairs()
        scorer = method.scorer(view.to("cuda"))
        scores = scorer.score_pairs(heads.cuda(), tails.cuda())
        assert scores.device.type == "cuda"
        assert scorer.score_rows(heads[:3].cuda(), 0, NODES).device.type == "cuda"
        self.close(scores.cpu(), method.scorer(view).score_pairs(heads, tails))
