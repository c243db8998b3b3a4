"""Structural features: shape, determinism, and no trace of held-out links."""

from dataclasses import replace

import pytest
import torch

from headtail.config import make_config
from headtail.graph.structure import STRUCTURES, structural_features
from headtail.graph.task import make_features, make_task
from headtail.graph.view import GraphView
from random_graphs import graph_of, random_links, random_view


def test_features_are_made_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setitem(STRUCTURES._entries, "noted", lambda *rest: made.append(1) or structural_features(*rest))
    graph = graph_of(random_links(40, 120, directed=True), 40)
    task = make_task(graph, make_config(settings={"structure_from": "noted", "eval_negatives": 5}))
    assert made == []
    assert task.features is task.features
    assert made == [1]


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("nodes", "dim", "columns"), [(40, 8, 8), (40, 16, 16)])
def test_shape_and_type(directed: bool, nodes: int, dim: int, columns: int) -> None:
    features = structural_features(random_view(nodes, 120, directed), dim)
    assert features.shape == (nodes, columns)
    assert features.dtype == torch.float32
    assert torch.isfinite(features).all()


@pytest.mark.parametrize("dim", [1, 7])
def test_odd_numbers_of_columns_of_directed_graphs(dim: int) -> None:
    assert structural_features(random_view(40, 120, True), dim).shape == (40, dim)


@pytest.mark.parametrize("directed", [True, False])
def test_tiny_graphs_get_fewer_columns(directed: bool) -> None:
    features = structural_features(random_view(5, 6, directed), 128)
    assert features.shape[0] == 5
    assert features.shape[1] < 128
    assert torch.isfinite(features).all()


@pytest.mark.parametrize("directed", [True, False])
def test_one_seed_one_result(directed: bool) -> None:
    view = random_view(40, 120, directed)
    assert torch.equal(structural_features(view, 8, seed=3), structural_features(view, 8, seed=3))


def test_order_of_links_does_not_matter() -> None:
    view = random_view(40, 120, False)
    flipped = GraphView(40, False, view.links.flip(1))
    torch.testing.assert_close(structural_features(view, 8), structural_features(flipped, 8))


def test_nodes_with_the_same_neighbours_are_alike() -> None:
    links = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 5], [3, 4, 5, 3, 4, 5, 6, 7, 7]])
    features = structural_features(GraphView(8, False, links), 4)
    like, unlike = torch.cosine_similarity(features[0], features[torch.tensor([1, 2])])
    assert like > 0.999
    assert unlike < 0.9


@pytest.mark.parametrize("directed", [True, False])
def test_features_of_a_task_use_training_links_alone(directed: bool) -> None:
    graph = graph_of(random_links(40, 160, directed), 40, directed)
    task = make_task(graph, make_config(settings={"structure": 8, "seed": 5, "eval_negatives": 2}))
    train = GraphView(40, directed, task.split.train)
    every = GraphView(40, directed, graph.links)
    assert torch.equal(task.features, structural_features(train, 8, seed=5))
    assert not torch.allclose(task.features, structural_features(every, 8, seed=5))


def test_structure_stands_beside_the_features_of_the_data() -> None:
    links = random_links(300, 900, True)
    view = GraphView(300, True, links)
    bare = graph_of(links, 300)
    own = torch.randn(300, 3)
    rich = replace(bare, features=own)
    assert make_features(bare, view, make_config("paper")).shape == (300, 128)
    assert make_features(bare, view, make_config("paper", settings={"structure": 0})).shape == (300, 128)
    assert torch.equal(make_features(rich, view, make_config("paper")), own)
    assert torch.equal(make_features(rich, view, make_config("paper", settings={"structure": 0})), own)
    beside = make_features(rich, view, make_config("paper", settings={"structure": 6}))
    assert beside.shape == (300, 9)
    assert torch.equal(beside[:, :3], own)
