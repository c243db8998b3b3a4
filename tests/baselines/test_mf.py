"""Matrix factorisation: the contract, the batches, and features that know the links of their view and no others."""

from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from embedding_case import EmbeddingCase
from tiny_methods import tiny_method

from headtail.baselines import mf
from headtail.baselines.mf import EmbeddingLinks, FactorModel, MatrixFactorisation, factor_structure
from headtail.config import ModelConfig, make_config
from headtail.datasets.synthetic import planted
from headtail.graph.structure import STRUCTURES
from headtail.graph.task import make_task
from headtail.graph.view import GraphView
from headtail.sampling.sampler import Batch
from headtail.training.counters import Counters
from random_graphs import graph_of, random_links, random_view
from tiny_runs import trained


class TestMatrixFactorisation(EmbeddingCase):
    name = "mf"
    learn: ClassVar[dict[str, Any]] = {"epochs": 15, "hidden": 16, "links_per_batch": 256, "evaluate_every": 5}

    @pytest.mark.parametrize("batches", ["rows", "edges"])
    def test_either_kind_of_batch_learns_every_link_once(self, batches: str) -> None:
        model = trained(method="mf", epochs=1, batches=batches, negatives_per_positive=3)
        assert model.history[0]["links"] == 255
        assert model.history[0]["pairs_scored"] == 255 * 4

    @pytest.mark.parametrize("directed", [True, False])
    def test_encodings_are_counted_end_by_end(self, directed: bool) -> None:
        method = tiny_method("mf", directed)
        assert isinstance(method, MatrixFactorisation)
        batch = next(iter(method.batches().epoch(torch.Generator().manual_seed(0))))
        counters = Counters()
        method.count(batch, counters)
        pairs = torch.cat([batch.positive, batch.negative], dim=1)
        heads, tails = (set(batch.nodes[ends].tolist()) for ends in pairs)
        assert set(batch.nodes.tolist()) == heads | tails
        wanted = len(heads | tails) + (len(heads) if directed else 0)
        assert counters.mlp_node_encodings == wanted
        assert counters.gnn_node_encodings == 0


def some_batch() -> Batch:
    return Batch(
        nodes=torch.tensor([4, 0, 2]),
        num_rows=2,
        positive=torch.tensor([[0, 1], [1, 2]]),
        negative=torch.tensor([[0], [2]]),
        negative_of=torch.tensor([0]),
        neighbourhood=None,
    )


@pytest.mark.parametrize("directed", [True, False])
def test_logits_follow_their_definition(directed: bool) -> None:
    """Embedding → BatchNorm → unit(x + W·x + b) three times, ReLU but in the last → weighted inner product."""
    torch.manual_seed(0)
    model = FactorModel(5, directed, ModelConfig(hidden=6, layers=3, scorer_layers=1)).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    batch = some_batch()

    def encode(x: torch.Tensor, layers: torch.nn.Module) -> torch.Tensor:
        for step, layer in enumerate(layers.layers):
            added = x @ layer.weight.T + layer.bias
            x = F.normalize(x + (added.clamp(min=0) if step < 2 else added))
        return x

    x = model.table[batch.nodes]
    norm, links = model.links.norm, model.links
    x = (x - x.mean(dim=0)) / (x.var(dim=0, unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias
    u, v = encode(x, links.head or links.tail), encode(x, links.tail)
    weighted = u.unsqueeze(1) * v * links.scorer.last.weight[0]
    wanted = (weighted.sum(dim=2) + links.scorer.last.bias)[[0, 1, 0], [1, 2, 2]]
    positive, negative = model(batch)
    torch.testing.assert_close(torch.cat([positive, negative]), wanted)


def test_a_one_layer_scorer_starts_as_an_inner_product() -> None:
    links = EmbeddingLinks(False, ModelConfig(hidden=6, layers=1, scorer_layers=1)).eval()
    x = torch.randn(4, 6)
    rows = links.tail(links.norm(x))
    scores = links.pair_scorer(x, directed=False).score_rows(torch.arange(4), 0, 4)
    torch.testing.assert_close(scores, (mf.FIRST_SLOPE * rows @ rows.T).detach())


# ---- features ----


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mf, "FEATURE_EPOCHS", 3)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("directed", [True, False])
def test_features_have_their_shape_and_zeros_without_links(directed: bool) -> None:
    view = random_view(40, 120, directed)
    structure = factor_structure(view, 7, seed=1)
    features = structure.columns(view)
    assert features.shape == (40, structure.width) == (40, 7)
    assert features.dtype == torch.float32
    assert not features.requires_grad
    linked = torch.bincount(view.links.ravel(), minlength=40) > 0
    assert 0 < int((~linked).sum()) < 20
    assert torch.equal(features[~linked], torch.zeros(int((~linked).sum()), 7))
    assert 0.5 < float(features[linked].square().mean()) < 2
    assert torch.equal(features, factor_structure(view, 7, seed=1).table)
    assert not torch.equal(features, factor_structure(view, 7, seed=2).table)


@pytest.mark.usefixtures("quick")
def test_features_are_the_same_whatever_a_view_shows() -> None:
    view = random_view(20, 40, True)
    structure = factor_structure(view, 4)
    assert torch.equal(structure.columns(GraphView(20, True, view.links[:, 5:])), structure.columns(view))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("directed", [True, False])
def test_features_know_nothing_held_out(directed: bool) -> None:
    links = random_links(40, 160, directed)
    settings = {"structure": 8, "structure_from": "mf", "seed": 5, "eval_negatives": 2, "device": "cpu"}
    task = make_task(graph_of(links, 40, directed), make_config(settings=settings))
    train = GraphView(40, directed, task.split.train)
    assert torch.equal(task.features, factor_structure(train, 8, seed=5).table)
    every = GraphView(40, directed, links)
    assert not torch.allclose(task.features, factor_structure(every, 8, seed=5).table)


@pytest.mark.usefixtures("quick")
def test_features_leave_the_callers_random_numbers_alone(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    STRUCTURES["mf"](random_view(20, 40, True), 4, 0, "cpu")
    assert torch.equal(torch.rand(3), wanted)
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("pairs", [[], [(0, 1)], [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]])
def test_features_of_tiny_graphs_are_finite(pairs: list[tuple[int, int]]) -> None:
    links = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    assert torch.isfinite(factor_structure(GraphView(3, True, links), 4).table).all()


@pytest.mark.slow
def test_features_place_communities_together() -> None:
    raw = planted(200, 4, degree=10.0, noise=0.02, seed=0, dim=8)
    features = F.normalize(factor_structure(GraphView(200, False, torch.from_numpy(raw.links)), 16).table)
    likeness = features @ features.T
    linked = likeness[raw.links[0], raw.links[1]].mean()
    assert float(linked) > float(likeness.mean()) + 0.3


@pytest.mark.parametrize(("links", "per_batch"), [(10, 256), (5000, 312), (416_511, 26_031), (30_000_000, 65_536)])
def test_batches_suit_the_graph(links: int, per_batch: int) -> None:
    assert mf.feature_links_per_batch(links) == per_batch
