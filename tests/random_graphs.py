"""Small random graphs and dense oracles that share no code with the library."""

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from headtail.datasets.raw import RawGraph, RawSplit
from headtail.graph.csr import CSR
from headtail.graph.graph import Graph, build_graph
from headtail.graph.message import MessageGraph
from headtail.graph.view import GraphView

Pairs = list[tuple[int, int]]


def as_links(pairs: Pairs | Tensor) -> Tensor:
    """Returns pairs as links [2, E]; links stay as they are."""
    if isinstance(pairs, Tensor):
        return pairs
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous()


def as_pairs(links: Tensor) -> Pairs:
    """Returns links [2, E] as a list of pairs."""
    return [(int(head), int(tail)) for head, tail in links.T.tolist()]


def random_view(nodes: int = 20, links: int = 40, directed: bool = True, seed: int = 0) -> GraphView:
    """Returns distinct links without self-loops; the last two nodes have none, some nodes have many."""
    random = np.random.default_rng(seed)
    # Squares of uniform numbers crowd at low node numbers, so degrees are uneven.
    ends = (random.random((2, 40 * links)) ** 2 * (nodes - 2)).astype(int)
    pairs = {(int(a), int(b)) if directed else (int(min(a, b)), int(max(a, b))) for a, b in ends.T if a != b}
    chosen = random.permutation(sorted(pairs))[:links]
    return GraphView(nodes, directed, as_links([(int(a), int(b)) for a, b in chosen]))


def random_links(nodes: int, count: int, directed: bool, seed: int = 0) -> Tensor:
    """Returns exactly `count` distinct links [2, count] without self-loops, drawn uniformly."""
    cells = [(a, b) for a in range(nodes) for b in range(nodes) if a != b and (directed or a < b)]
    chosen = np.random.default_rng(seed).permutation(len(cells))[:count]
    return as_links([cells[place] for place in sorted(chosen)])


def star(leaves: int) -> GraphView:
    """Returns node 0 linked to 1 … leaves: its degree with self-loop is leaves + 1, that of a leaf 2."""
    return GraphView(leaves + 1, True, as_links([(0, leaf) for leaf in range(1, leaves + 1)]))


def message_graph(
    view: GraphView,
    dim: int = 5,
    normalisation: str = "row",
    layers: int = 2,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> MessageGraph:
    """Returns the message graph of a view over random features."""
    features = torch.randn(view.num_nodes, dim, generator=torch.Generator().manual_seed(seed))
    return MessageGraph.build(view, features.to(device), normalisation, layers)


def graph_of(
    links: Pairs | Tensor,
    nodes: int,
    directed: bool = True,
    times: list[int] | Tensor | None = None,
    valid: Pairs | Tensor | None = None,
    test: Pairs | Tensor | None = None,
    metric: str | None = None,
) -> Graph:
    """Builds a graph the way a reader would hand it over, with its own split where `valid` and `test` are given."""
    split = None
    if valid is not None and test is not None:
        split = RawSplit(as_links(valid).numpy(), as_links(test).numpy())
    dates = None if times is None else torch.as_tensor(times, dtype=torch.int64).numpy()
    raw = RawGraph("a test", nodes, as_links(links).numpy(), directed, times=dates, split=split, metric=metric)
    return build_graph(raw)


def dense(csr: CSR) -> NDArray[np.float64]:
    """Returns a CSR as a dense matrix, entries of the same place summed (by SciPy)."""
    weight = np.ones(csr.col.numel()) if csr.weight is None else csr.weight.double().cpu().numpy()
    shape = (csr.num_rows, csr.num_cols)
    return sp.csr_array((weight, csr.col.cpu().numpy(), csr.row_ptr.cpu().numpy()), shape=shape).toarray()


def dense_messages(view: GraphView, normalisation: str) -> NDArray[np.float64]:
    """Returns Â of METHOD 1 from its definition: A made symmetric, plus I, divided by degrees."""
    pattern = np.eye(view.num_nodes)
    for head, tail in as_pairs(view.links):
        pattern[head, tail] = pattern[tail, head] = 1.0
    degree = pattern.sum(axis=1)
    if normalisation == "row":
        return pattern / degree[:, None]
    if normalisation == "column":
        return pattern / degree[None, :]
    return pattern / np.sqrt(degree[:, None] * degree[None, :])


@st.composite
def views(draw: st.DrawFn, max_nodes: int = 9, min_links: int = 1) -> GraphView:
    """Any small graph: directed or not, disconnected, with isolated nodes, sparse or complete."""
    nodes = draw(st.integers(3, max_nodes))
    directed = draw(st.booleans())
    cells = [(a, b) for a in range(nodes) for b in range(nodes) if a != b and (directed or a < b)]
    pairs = draw(st.lists(st.sampled_from(cells), min_size=min_links, max_size=len(cells), unique=True))
    return GraphView(nodes, directed, as_links(pairs))
