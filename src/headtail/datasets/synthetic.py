"""Graphs with a known answer (planted communities) and with the shape of real ones (heavy-tailed degrees)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headtail.datasets.raw import Floats, Ints, RawGraph
from headtail.errors import DataError


def planted(
    num_nodes: int = 1000,
    communities: int = 10,
    degree: float = 12.0,
    noise: float = 0.1,
    seed: int = 0,
    directed: bool = False,
    dim: int = 16,
) -> RawGraph:
    """Returns a planted-partition graph: links join nodes of one community, but for a share of random ones.

    Args:
        num_nodes: Number of nodes.
        communities: Number of equally large communities.
        degree: Links per node; each undirected link counts for both its ends.
        noise: Share of links, 0 … 1, that join any two nodes.
        seed: The same seed gives the same graph.
        directed: Whether a link has a direction.
        dim: Width of the features: the centre of the node's community under noise twice as strong.
    """
    _check(num_nodes, dim)
    if not 1 <= communities <= num_nodes // 2:
        raise DataError(
            f"a planted graph of {num_nodes} nodes has 1 to {num_nodes // 2} communities, not {communities}"
        )
    if not 0 <= noise <= 1:
        raise DataError(f"noise is the share of random links, between 0 and 1, not {noise}")
    num_links = round(num_nodes * degree / (1 if directed else 2))
    possible = (num_nodes - 1) * num_nodes // (communities * (1 if directed else 2))
    _check_links(num_links, possible // 2)
    rng = np.random.default_rng(seed)
    community = rng.permutation(np.arange(num_nodes) % communities)
    members = np.argsort(community, kind="stable")
    sizes = np.bincount(community, minlength=communities)
    starts = np.cumsum(sizes) - sizes

    def draw(count: int) -> Ints:
        heads = rng.integers(num_nodes, size=count)
        home = community[heads]
        inside = members[starts[home] + (rng.random(count) * sizes[home]).astype(np.int64)]
        tails = np.where(rng.random(count) < noise, rng.integers(num_nodes, size=count), inside)
        return np.stack([heads, tails])

    links = _distinct(rng, draw, num_links, num_nodes, directed)
    centres = rng.standard_normal((communities, dim))
    hints = centres[community] + 2.0 * rng.standard_normal((num_nodes, dim))
    return RawGraph("planted", num_nodes, links, directed, features=hints.astype(np.float32))


def heavy_tailed(num_nodes: int, num_links: int, dim: int = 32, seed: int = 0, directed: bool = True) -> RawGraph:
    """Returns a graph whose degrees follow power laws, with random features.

    Out-degrees and in-degrees belong to different nodes, as in citations: who cites much is not who is cited. An
    undirected graph is made the same way, without the direction.
    """
    _check(num_nodes, dim)
    _check_links(num_links, num_nodes * (num_nodes - 1) // (10 if directed else 20))
    rng = np.random.default_rng(seed)
    # Popularity ∝ rank^-a gives degrees with density ∝ degree^-(1 + 1/a): exponents 3 (out) and 2.3 (in).
    out_nodes, in_nodes = rng.permutation(num_nodes), rng.permutation(num_nodes)

    def draw(count: int) -> Ints:
        heads = out_nodes[_ranks(rng.random(count), num_nodes, steepness=0.5)]
        tails = in_nodes[_ranks(rng.random(count), num_nodes, steepness=0.75)]
        return np.stack([heads, tails])

    links = _distinct(rng, draw, num_links, num_nodes, directed)
    features: Floats = rng.standard_normal((num_nodes, dim), dtype=np.float32)
    return RawGraph("heavy_tailed", num_nodes, links, directed, features=features)


def _ranks(uniform: NDArray[np.float64], num_nodes: int, steepness: float) -> Ints:
    """Turns random numbers in [0, 1) into ranks 0 … N − 1, rank r with a density ∝ (r + 1)^-steepness.

    The distribution function of the continuous density is inverted: no table to search, which takes minutes for
    millions of nodes.
    """
    power = 1 - steepness
    spread = (num_nodes + 1.0) ** power - 1
    ranks = ((1 + uniform * spread) ** (1 / power)).astype(np.int64) - 1
    bounded: Ints = np.minimum(ranks, num_nodes - 1)
    return bounded


def _distinct(
    rng: np.random.Generator, draw: Callable[[int], Ints], num_links: int, num_nodes: int, directed: bool
) -> Ints:
    """Draws until there are `num_links` different links, no self-loops; head < tail if undirected."""
    keys: Ints = np.empty(0, dtype=np.int64)
    while len(keys) < num_links:
        heads, tails = draw(int(1.2 * (num_links - len(keys))) + 16)
        if not directed:
            heads, tails = np.minimum(heads, tails), np.maximum(heads, tails)
        apart = heads != tails
        # By sorting: numpy's own unique hashes, which takes many times as long for millions of keys.
        keys = np.sort(np.concatenate([keys, heads[apart] * num_nodes + tails[apart]]))
        keys = keys[np.diff(keys, prepend=-1) > 0]
    # The keys are sorted: what is too many must go at random, not from the end.
    surplus = rng.choice(len(keys), len(keys) - num_links, replace=False, shuffle=False)
    keys = np.delete(keys, surplus)
    return np.stack([keys // num_nodes, keys % num_nodes])


def _check(num_nodes: int, dim: int) -> None:
    if num_nodes < 2 or dim < 1:
        raise DataError(f"a synthetic graph needs two nodes and one feature, not {num_nodes} and {dim}")


def _check_links(num_links: int, most: int) -> None:
    if not 1 <= num_links <= most:
        raise DataError(f"a synthetic graph of this size has 1 to {most} links, not {num_links}")
