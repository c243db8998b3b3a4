"""Evidence about a pair by definition: dense matrices and loops over nodes, after the pair's own link was removed."""

from collections.abc import Sequence

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtail.graph.view import GraphView
from random_graphs import as_links, as_pairs, random_view

Matrix = NDArray[np.float64]
KINDS = ("degrees", "common", "paths", "similarity", "ages")


def dated_view(nodes: int, links: int, directed: bool, seed: int = 0, dates: int = 7) -> GraphView:
    """Returns a random view whose links have a few dates, in no order."""
    view = random_view(nodes, links, directed, seed)
    times = np.random.default_rng(seed).integers(100, 100 + dates, view.links.shape[1])
    return GraphView(nodes, directed, view.links, torch.from_numpy(times))


def hub_view(directed: bool, leaves: int = 14) -> GraphView:
    """Returns two hubs with the same leaves, linked with each other, some links among leaves, and a lone node."""
    pairs = [(0, 1), *((hub, leaf) for hub in (0, 1) for leaf in range(2, 2 + leaves))]
    pairs += [(leaf, leaf + 1) for leaf in range(2, 1 + leaves, 3)]
    if directed:
        pairs += [(leaf, 0) for leaf in range(2, 2 + leaves, 2)] + [(1, 0)]
    return GraphView(leaves + 3, directed, as_links(pairs), torch.arange(len(pairs)) % 5)


def views_to_ask() -> list[tuple[str, GraphView]]:
    """Directed and undirected views: random, dense, hubs, one link, none."""
    found = []
    for directed in (True, False):
        name = "directed" if directed else "undirected"
        none, one = torch.empty(2, 0, dtype=torch.int64), as_links([(0, 2)])
        found += [
            (f"{name} random", dated_view(14, 32, directed)),
            (f"{name} dense", dated_view(9, 20, directed, seed=3)),
            (f"{name} hubs", hub_view(directed)),
            (f"{name} one link", GraphView(4, directed, one, torch.tensor([5]))),
            (f"{name} empty", GraphView(3, directed, none, torch.empty(0, dtype=torch.int64))),
        ]
    return found


VIEWS = views_to_ask()


def features_of(view: GraphView, dim: int = 4) -> Tensor:
    """Returns random features, far from the origin so that it matters that their mean is taken off."""
    return 3 + torch.randn(view.num_nodes, dim, generator=torch.Generator().manual_seed(1))


def all_pairs(view: GraphView) -> tuple[Tensor, Tensor]:
    """Returns heads and tails of all pairs, those of a node with itself too."""
    nodes = torch.arange(view.num_nodes)
    heads, tails = torch.cartesian_prod(nodes, nodes).T
    return heads, tails


def without_link(view: GraphView, head: int, tail: int) -> GraphView:
    """Returns the view without one link; of an undirected one it may be named either way."""
    unwanted = {(head, tail)} if view.directed else {(head, tail), (tail, head)}
    kept = torch.tensor([pair not in unwanted for pair in as_pairs(view.links)], dtype=torch.bool)
    times = None if view.times is None else view.times[kept]
    return GraphView(view.num_nodes, view.directed, view.links[:, kept], times)


def adjacency(view: GraphView) -> Matrix:
    """Returns A [N, N]; an undirected link stands in it twice."""
    matrix = np.zeros((view.num_nodes, view.num_nodes))
    for head, tail in as_pairs(view.links):
        matrix[head, tail] = 1
        if not view.directed:
            matrix[tail, head] = 1
    return matrix


def columns(kinds: Sequence[str], view: GraphView, features: Tensor, pair: tuple[int, int]) -> list[float]:
    """Returns the columns of these kinds for one pair."""
    bare = without_link(view, *pair)
    found = []
    for kind in kinds:
        if kind == "degrees":
            found += degrees(bare, *pair)
        elif kind == "common":
            found += common(bare, *pair)
        elif kind == "paths":
            found += paths(bare, *pair, shares(bare))
        elif kind == "similarity":
            found += similarity(bare, features, *pair)
        else:
            found += ages(view, *pair)
    return found


def degrees(bare: GraphView, head: int, tail: int) -> list[float]:
    a = adjacency(bare)
    if not bare.directed:
        return [np.log1p(a[head].sum()), np.log1p(a[tail].sum())]
    counts = a[head].sum(), a[:, tail].sum(), a[:, head].sum(), a[tail].sum()
    return [*map(np.log1p, counts), a[tail, head]]


def common(bare: GraphView, head: int, tail: int) -> list[float]:
    graph = nx.Graph()
    graph.add_nodes_from(range(bare.num_nodes))
    graph.add_edges_from(as_pairs(bare.links))
    if head == tail:  # NetworkX has no opinion on Adamic–Adar of a node with itself that only has one neighbour
        shared = list(graph[head])
    else:
        shared = list(nx.common_neighbors(graph, head, tail))
    adamic = sum(1 / max(np.log(graph.degree[z]), np.log(2)) for z in shared)
    if head != tail:
        ((_, _, wanted),) = nx.adamic_adar_index(graph, [(head, tail)])
        assert np.isclose(adamic, wanted)
        ((_, _, allocated),) = nx.resource_allocation_index(graph, [(head, tail)])
    else:
        allocated = sum(1 / graph.degree[z] for z in shared)
    found = [len(shared), 3 * adamic, 100 * allocated]
    if bare.directed:
        a = adjacency(bare)
        sends, receives = a.sum(axis=1), a.sum(axis=0)
        shapes = ((a[head], a[tail], receives), (a[head], a[:, tail], sends))
        shapes += ((a[:, head], a[tail], receives), (a[:, head], a[:, tail], sends))
        for one, two, size in shapes:
            found += [sum(one * two), sum(100 * one[z] * two[z] / max(1, size[z]) for z in range(len(a)))]
    return list(np.log1p(found))


def shares(view: GraphView, pairs_per_link: float = 1e9) -> Matrix:
    """Returns 1 / in-degree, 0 from where on the squares of in-degrees, smallest first, sum up to too many."""
    a = adjacency(view)
    received = a.sum(axis=0)
    share, total = np.zeros(len(a)), 0.0
    for node in sorted(range(len(a)), key=lambda node: received[node]):
        total += received[node] ** 2
        if total <= pairs_per_link * a.sum():
            share[node] = 1 / max(1, received[node])
    return share


def paths(bare: GraphView, head: int, tail: int, share: Matrix) -> list[float]:
    """Sums share[z] over all walks head → z ← k → tail with k ≠ head, of a view without the link of the pair."""
    a = adjacency(bare)
    through = (a[head] * share) @ a.T  # [k]
    through[head] = 0
    total = 100 * (through @ a[:, tail])
    return [np.log1p(total), np.log1p(total / max(1, a[:, tail].sum()))]


def similarity(bare: GraphView, features: Tensor, head: int, tail: int) -> list[float]:
    x = features.double().numpy()
    x = x - x.mean(axis=0)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    a = adjacency(bare)
    tails, heads = np.flatnonzero(a[head]), np.flatnonzero(a[:, tail])
    return [
        x[head] @ x[tail],
        np.mean([x[t] @ x[tail] for t in tails]) if len(tails) else 0.0,
        np.mean([x[h] @ x[head] for h in heads]) if len(heads) else 0.0,
    ]


def freshness(view: GraphView) -> Matrix:
    """Returns e^(−age / 0.15) of every pair of neighbours, the newer link counting; 0 elsewhere."""
    assert view.times is not None
    fresh, times = np.zeros((view.num_nodes, view.num_nodes)), view.times.numpy()
    for (head, tail), time in zip(as_pairs(view.links), times, strict=True):
        value = np.exp(-(times > time).mean() / 0.15)
        fresh[head, tail] = fresh[tail, head] = max(value, fresh[head, tail])
    return fresh


def ages(view: GraphView, head: int, tail: int) -> list[float]:
    """Unlike the others by a formula: without a link, all other links would be of another age."""
    fresh = freshness(view)
    degree = (fresh > 0).sum(axis=1)
    both = fresh[head] * fresh[tail]
    fresh[head, tail] = fresh[tail, head] = 0
    activity = [[np.log1p(fresh[node].sum()), fresh[node].max()] for node in (head, tail)]
    return [np.log1p(10 * both.sum()), np.log1p((100 * both / np.maximum(1, degree)).sum()), *activity[0], *activity[1]]
