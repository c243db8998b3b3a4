"""Synthetic graphs have the structure they promise."""

import numpy as np
import pytest

from headtail.datasets.raw import RawGraph
from headtail.datasets.synthetic import heavy_tailed, planted
from headtail.errors import DataError


def assert_clean(graph: RawGraph) -> None:
    heads, tails = graph.links
    assert (heads != tails).all()
    assert len(np.unique(heads * graph.num_nodes + tails)) == len(heads)
    assert graph.links.min() >= 0
    assert graph.links.max() < graph.num_nodes
    assert graph.features is not None
    assert graph.features.dtype == np.float32


@pytest.mark.parametrize("directed", [False, True])
def test_planted_sizes(directed: bool) -> None:
    graph = planted(200, 4, degree=6, noise=0.2, seed=1, directed=directed, dim=5)
    assert_clean(graph)
    assert graph.directed is directed
    assert graph.links.shape == (2, 1200 if directed else 600)
    assert graph.features is not None
    assert graph.features.shape == (200, 5)


def test_planted_links_stay_inside_communities() -> None:
    graph = planted(300, 3, degree=10, noise=0.0)
    parent = np.arange(300)
    for _ in range(300):
        lowest = np.minimum(parent[graph.links[0]], parent[graph.links[1]])
        np.minimum.at(parent, graph.links[0], lowest)
        np.minimum.at(parent, graph.links[1], lowest)
    assert sorted(np.unique(parent, return_counts=True)[1]) == [100, 100, 100]


def test_planted_features_are_weak_hints() -> None:
    graph = planted(600, 3, degree=10, noise=0.0, dim=16)
    features = graph.features
    assert features is not None
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    linked = (unit[graph.links[0]] * unit[graph.links[1]]).sum(axis=1).mean()
    assert 0.05 < linked < 0.5


def test_seeds() -> None:
    for make in (lambda seed: planted(seed=seed), lambda seed: heavy_tailed(500, 2000, 4, seed)):
        one, again, other = make(1), make(1), make(2)
        assert np.array_equal(one.links, again.links)
        assert np.array_equal(one.features, again.features)
        assert not np.array_equal(one.links, other.links)


def test_heavy_tailed_degrees() -> None:
    graph = heavy_tailed(5000, 50_000, dim=3, seed=0)
    assert_clean(graph)
    assert graph.directed
    assert graph.links.shape == (2, 50_000)
    for ends in graph.links:
        degrees = np.bincount(ends, minlength=5000)
        assert degrees.max() > 20 * degrees.mean()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: planted(10, 6), "1 to 5 communities, not 6"),
        (lambda: planted(noise=1.5), "noise"),
        (lambda: planted(20, 5, degree=10), "links, not 100"),
        (lambda: planted(1), "two nodes"),
        (lambda: heavy_tailed(10, 1000), "1 to 9 links, not 1000"),
        (lambda: heavy_tailed(10, 5, dim=0), "one feature"),
    ],
)
def test_impossible_graphs(call, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()
