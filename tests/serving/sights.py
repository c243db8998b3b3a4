"""What sources look at in the tests: graphs of every kind, and the same as dense matrices from their definition."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from headtail.graph.view import GraphView
from headtail.serving import sources  # noqa: F401, registers those that come with headtail
from headtail.serving.sight import Sight
from random_graphs import as_links, as_pairs, random_view

NODES, LINKS = 30, 90
Dense = NDArray[np.float64]


def sight_of(directed: bool, seed: int = 0, dated: bool = False, described: bool = False) -> Sight:
    """Uneven degrees, two nodes without links; ten days, or none; features of which some are the same."""
    view = random_view(NODES, LINKS, directed, seed)
    generator = torch.Generator().manual_seed(seed)
    if dated:
        view = replace(view, times=torch.randint(10, (view.links.shape[1],), generator=generator))
    features = torch.randn(NODES, 4, generator=generator) if described else None
    if features is not None:
        features[5:9] = features[4]
    return Sight.of(view, features)


def bipartite() -> Sight:
    """Nodes 0 … 14 link to nodes 15 … 29."""
    random = np.random.default_rng(1)
    pairs = {(int(a), 15 + int(b)) for a, b in random.integers(15, size=(70, 2))}
    return Sight.of(GraphView(NODES, True, as_links(sorted(pairs))))


# By name: graphs of every kind.
SIGHTS: dict[str, Callable[[], Sight]] = {
    "directed": lambda: sight_of(True),
    "undirected": lambda: sight_of(False),
    "dated": lambda: sight_of(True, dated=True),
    "dated and undirected": lambda: sight_of(False, 1, dated=True),
    "described": lambda: sight_of(True, 2, described=True),
    "all there is": lambda: sight_of(True, 3, dated=True, described=True),
    "described and undirected": lambda: sight_of(False, 4, described=True),
    "described alike": lambda: Sight.of(random_view(NODES, LINKS), torch.ones(NODES, 3)),
    "bipartite": bipartite,
    "one link": lambda: Sight.of(GraphView(5, True, as_links([(1, 3)]), torch.tensor([7])), torch.randn(5, 2)),
    "one undirected link": lambda: Sight.of(GraphView(5, False, as_links([(1, 3)]))),
    "no links": lambda: Sight.of(GraphView(4, True, as_links([]), torch.empty(0, dtype=torch.long))),
    "two nodes": lambda: Sight.of(GraphView(2, True, as_links([(0, 1)]))),
}


def out_of(sight: Sight) -> Dense:
    """Head × tail, from the list of links."""
    return matrix(sight, np.ones(sight.view.links.shape[1], dtype=bool))


def features_of(sight: Sight) -> Dense:
    """Returns [N, d], what nodes are described by."""
    assert sight.described is not None
    return sight.described.features.double().numpy()


def newest_of(sight: Sight) -> Dense:
    """Head × tail, of the links of the newest days: the fewest that hold a tenth of all links."""
    assert sight.view.times is not None
    times = sight.view.times.numpy()
    since = max(day for day in times if (times >= day).sum() >= 0.1 * len(times))
    return matrix(sight, times >= since)


def matrix(sight: Sight, chosen: NDArray[np.bool_]) -> Dense:
    found = np.zeros((sight.num_nodes, sight.num_nodes))
    for (head, tail), there in zip(as_pairs(sight.view.links), chosen, strict=True):
        if there:
            found[head, tail] = 1
            if not sight.directed:
                found[tail, head] = 1
    return found


def around_of(out: Dense) -> Dense:
    return np.maximum(out, out.T)


def shares(links: Dense, axis: int, power: float = 1.0) -> Dense:
    """Divides links by how many there are in their row (1) or column (0), or a power of that."""
    return links / np.maximum(links.sum(axis=axis, keepdims=True), 1) ** power


def unit_rows(features: Dense) -> Dense:
    centred = features - features.mean(axis=0)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
