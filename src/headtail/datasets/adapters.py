"""Takes graphs from objects of other libraries: PyTorch Geometric, NetworkX, SciPy, plain arrays.

Objects are recognised by the module of their type, so that none of these libraries is imported for it. An
undirected graph comes out with each link once.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd
import scipy.sparse as sp

from headtail.datasets.arrays import to_numpy
from headtail.datasets.features import matrix_features
from headtail.datasets.raw import Ints, RawGraph
from headtail.errors import DataError

Adapter = Callable[[object, bool | None], RawGraph]


def adapter_of(source: object) -> Adapter | None:
    """Returns what turns `source` into a graph, None where nothing does."""
    if sp.issparse(source):
        return from_scipy
    modules = {kind.__module__.split(".")[0] for kind in type(source).__mro__}
    if "torch_geometric" in modules:
        return from_pyg
    if "networkx" in modules:
        return from_networkx
    if "torch" in modules or isinstance(source, np.ndarray):
        return from_array
    return None


def from_pyg(source: object, directed: bool | None = None) -> RawGraph:
    """Takes `edge_index`, `x`, `num_nodes` and the times `edge_time` or `time` of a `Data` object.

    Links that all occur in both directions make an undirected graph, unless `directed` says otherwise.
    """
    data = cast(Any, source)
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None or isinstance(edge_index, dict) or not hasattr(edge_index, "numpy"):
        raise DataError(
            f"{type(source).__name__} has no edge_index [2, E]; give a homogeneous "
            "torch_geometric.data.Data, for example by to_homogeneous()"
        )
    links = _link_array(edge_index, "edge_index")
    num_nodes = int(data.num_nodes)
    if links.max(initial=-1) >= num_nodes:
        raise DataError(f"edge_index names node {links.max()}, but num_nodes is {num_nodes}; set data.num_nodes")
    times = _pyg_times(data, links.shape[1], num_nodes)
    x = getattr(data, "x", None)
    features = None if x is None else matrix_features(to_numpy(x), "data.x", num_nodes)
    name = type(source).__name__
    return _oriented(RawGraph(name, num_nodes, links, True, times=times, features=features), directed)


def from_networkx(source: object, directed: bool | None = None) -> RawGraph:
    """Takes nodes and links, parallel ones once; integer nodes stay integers, others become strings."""
    graph = cast(Any, source)
    nodes = list(graph.nodes)
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in nodes):
        # Numbers that are node numbers already shall stay what they are.
        nodes.sort()
        names: pd.Index = pd.Index(np.array(nodes, dtype=np.int64))
    else:
        names = pd.Index([str(node) for node in nodes])
    if names.has_duplicates:
        twice = names[names.duplicated()][0]
        raise DataError(f"two nodes of the NetworkX graph are both written {twice!r}; relabel one")
    number = {node: position for position, node in enumerate(nodes)}
    ends = np.fromiter((number[end] for link in graph.edges() for end in link), dtype=np.int64)
    links = ends.reshape(-1, 2).T
    is_directed = bool(graph.is_directed()) if directed is None else directed
    if not graph.is_directed() and is_directed:
        links = np.concatenate([links, links[::-1]], axis=1)
    links = _distinct(links, len(nodes), is_directed)
    plain = bool(np.array_equal(names, np.arange(len(nodes))))
    return RawGraph(type(source).__name__, len(nodes), links, is_directed, names=None if plain else names)


def from_scipy(source: object, directed: bool | None = None) -> RawGraph:
    """Takes the non-zero entries (head, tail) of a square sparse matrix, undirected if they are symmetric."""
    matrix = cast(Any, source)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"the sparse matrix has shape {matrix.shape}; an adjacency matrix is square")
    coo = sp.coo_array(sp.csr_array(matrix))
    stored = coo.data != 0
    links = np.stack([coo.row[stored], coo.col[stored]]).astype(np.int64)
    return _oriented(RawGraph("sparse matrix", matrix.shape[0], links, True), directed)


def from_array(source: object, directed: bool | None = None) -> RawGraph:
    """Takes heads and tails [2, E] of node numbers; links have a direction unless `directed` is False."""
    links = _link_array(source, "the link array")
    num_nodes = int(links.max(initial=-1)) + 1
    return RawGraph("array", num_nodes, links, directed is not False)


def _link_array(source: object, what: str) -> Ints:
    links = to_numpy(source)
    if links.ndim != 2 or links.shape[0] != 2:
        hint = "; transpose it" if links.ndim == 2 and links.shape[1] == 2 else ""
        raise DataError(f"{what} has shape {tuple(links.shape)}, expected [2, E]: heads, tails{hint}")
    if links.dtype.kind not in "iu":
        raise DataError(f"{what} holds {links.dtype}, expected integers, the numbers of nodes")
    if links.shape[1] == 0:
        raise DataError(f"{what} holds no links")
    numbers = links.astype(np.int64)
    if numbers.min() < 0:
        position = int(np.argmax((numbers < 0).any(axis=0)))
        raise DataError(f"{what} holds a negative node number in link {position}; nodes are numbered from 0")
    return numbers


def _pyg_times(data: Any, num_links: int, num_nodes: int) -> Ints | None:
    for name in ("edge_time", "time"):
        if getattr(data, name, None) is None:
            continue
        times = to_numpy(getattr(data, name)).reshape(-1)
        if name == "time" and len(times) == num_nodes != num_links:
            # PyTorch Geometric dates nodes under this name too.
            return None
        if len(times) != num_links:
            raise DataError(f"data.{name} holds {len(times)} times for {num_links} links; give one per link")
        if times.dtype.kind not in "iu":
            raise DataError(f"data.{name} holds {times.dtype}; times are integers")
        return times.astype(np.int64)
    return None


def _oriented(graph: RawGraph, directed: bool | None) -> RawGraph:
    """Returns the graph undirected, each link once, if links and times are symmetric or it is asked for."""
    heads, tails = graph.links
    if directed is None:
        directed = not _is_symmetric(graph)
    if directed:
        return graph
    if not _is_symmetric(graph):
        return replace(graph, directed=False)
    once = heads <= tails
    times = None if graph.times is None else graph.times[once]
    return replace(graph, links=graph.links[:, once], times=times, directed=False)


def _is_symmetric(graph: RawGraph) -> bool:
    """Whether every link (u, v) has its reverse (v, u), as often and at the same times."""
    times = np.zeros(graph.links.shape[1], dtype=np.int64) if graph.times is None else graph.times
    heads, tails = graph.links
    there, back = np.lexsort((times, tails, heads)), np.lexsort((times, heads, tails))
    return bool(
        np.array_equal(heads[there], tails[back])
        and np.array_equal(tails[there], heads[back])
        and np.array_equal(times[there], times[back])
    )


def _distinct(links: Ints, num_nodes: int, directed: bool) -> Ints:
    """Returns links without repetition, in the order of their first occurrence."""
    ends = links if directed else np.sort(links, axis=0)
    _, first = np.unique(ends[0] * num_nodes + ends[1], return_index=True)
    return links[:, np.sort(first)]
