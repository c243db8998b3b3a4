"""Graphs of other libraries."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

import headtail.datasets
from headtail.datasets.read import read
from headtail.errors import DataError

PATH = np.array([[0, 1, 2], [1, 2, 3]])
BOTH = np.concatenate([PATH, PATH[::-1]], axis=1)


def pyg(edge_index: np.ndarray, **more: object):
    from torch_geometric.data import Data

    return Data(edge_index=torch.from_numpy(edge_index), **more)


def pairs(graph) -> set[tuple[int, int]]:
    return set(zip(*graph.links.tolist(), strict=True))


def test_pyg_directed_with_features_and_times() -> None:
    data = pyg(PATH, x=torch.ones(5, 3, dtype=torch.bfloat16), edge_time=torch.tensor([3, 2, 1]))
    graph = read(data)
    assert (graph.num_nodes, graph.directed) == (5, True)
    assert np.array_equal(graph.links, PATH)
    assert graph.times is not None
    assert graph.times.tolist() == [3, 2, 1]
    assert graph.features is not None
    assert graph.features.shape == (5, 3)


def test_pyg_undirected_keeps_each_link_once() -> None:
    graph = read(pyg(BOTH, num_nodes=4))
    assert graph.directed is False
    assert pairs(graph) == {(0, 1), (1, 2), (2, 3)}
    timed = read(pyg(BOTH, num_nodes=4, time=torch.tensor([1, 2, 3, 1, 2, 3])))
    assert timed.times is not None
    assert timed.times.tolist() == [1, 2, 3]


def test_pyg_links_that_answer_at_other_times_are_directed() -> None:
    graph = read(pyg(BOTH, num_nodes=4, time=torch.arange(6)))
    assert graph.directed
    assert graph.links.shape == (2, 6)


def test_directed_overrides_what_the_object_says() -> None:
    assert read(pyg(BOTH, num_nodes=4), directed=True).links.shape == (2, 6)
    one_way = read(pyg(PATH, num_nodes=4), directed=False)
    assert one_way.directed is False
    assert one_way.links.shape == (2, 3)


def test_unusable_pyg() -> None:
    from torch_geometric.data import Data, HeteroData

    with pytest.raises(DataError, match=r"HeteroData has no edge_index.*to_homogeneous"):
        read(HeteroData())
    with pytest.raises(DataError, match="Data has no edge_index"):
        read(Data(x=torch.ones(2, 1)))
    with pytest.raises(DataError, match="edge_index names node 3, but num_nodes is 2"):
        read(pyg(PATH, num_nodes=2))
    with pytest.raises(DataError, match=r"data\.edge_time holds 2 times for 3 links"):
        read(pyg(PATH, num_nodes=4, edge_time=torch.tensor([1, 2])))
    with pytest.raises(DataError, match=r"data\.x: 1 feature values are NaN.*node 1"):
        read(pyg(PATH, x=torch.tensor([[0.0], [torch.nan], [0.0], [0.0]])))


def test_networkx_names() -> None:
    nx = pytest.importorskip("networkx")
    graph = read(nx.DiGraph([("b", "a"), ("a", "c")]))
    assert graph.directed
    assert graph.names is not None
    assert graph.names.tolist() == ["b", "a", "c"]
    assert pairs(graph) == {(0, 1), (1, 2)}
    numbers = read(nx.Graph([(30, 10), (10, 20)]))
    assert numbers.directed is False
    assert numbers.names is not None
    assert numbers.names.tolist() == [10, 20, 30]
    assert {frozenset(pair) for pair in pairs(numbers)} == {frozenset({2, 0}), frozenset({0, 1})}


def test_networkx_node_numbers_need_no_names() -> None:
    nx = pytest.importorskip("networkx")
    source = nx.Graph([(3, 1), (1, 0)])
    source.add_node(2)
    graph = read(source)
    assert (graph.num_nodes, graph.names) == (4, None)
    assert {frozenset(pair) for pair in pairs(graph)} == {frozenset({1, 3}), frozenset({0, 1})}


@pytest.mark.parametrize(("kind", "expected"), [("MultiGraph", 1), ("MultiDiGraph", 2)])
def test_networkx_parallel_links_count_once(kind: str, expected: int) -> None:
    nx = pytest.importorskip("networkx")
    assert read(getattr(nx, kind)([("a", "b"), ("a", "b"), ("b", "a")])).links.shape == (2, expected)


def test_networkx_undirected_read_as_directed_has_both_directions() -> None:
    nx = pytest.importorskip("networkx")
    assert pairs(read(nx.Graph([(0, 1)]), directed=True)) == {(0, 1), (1, 0)}


def test_networkx_nodes_written_alike() -> None:
    nx = pytest.importorskip("networkx")
    with pytest.raises(DataError, match="both written '1'"):
        read(nx.Graph([(1, "1")]))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.coo_array, sp.csc_array, sp.lil_matrix])
def test_scipy(kind) -> None:
    one_way = read(kind(np.array([[0, 2, 0], [0, 0, 1], [0, 0, 0]])))
    assert one_way.directed
    assert one_way.num_nodes == 3
    assert pairs(one_way) == {(0, 1), (1, 2)}
    symmetric = read(kind(np.array([[1, 1, 0], [1, 0, 1], [0, 1, 0]])))
    assert symmetric.directed is False
    assert pairs(symmetric) == {(0, 0), (0, 1), (1, 2)}


def test_scipy_explicit_zeros_are_no_links_and_duplicates_count_once() -> None:
    matrix = sp.coo_matrix(([1.0, 1.0, 0.0], ([0, 0, 1], [1, 1, 2])), shape=(3, 3))
    assert pairs(read(matrix)) == {(0, 1)}


def test_scipy_must_be_square() -> None:
    with pytest.raises(DataError, match=r"shape \(2, 3\).*square"):
        read(sp.csr_matrix(np.ones((2, 3))))


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy])
def test_arrays(make) -> None:
    graph = read(make(PATH))
    assert (graph.num_nodes, graph.directed, graph.names) == (4, True, None)
    assert np.array_equal(graph.links, PATH)
    assert read(make(PATH), directed=False).directed is False
    assert read(make(PATH), features=np.ones((9, 2))).num_nodes == 9


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (PATH.T, r"shape \(3, 2\), expected \[2, E\].*transpose"),
        (PATH.astype(float), "holds float64, expected integers"),
        (np.array([[0, 1], [1, -1]]), "negative node number in link 1"),
        (np.zeros((2, 0), dtype=int), "no links"),
        (np.zeros(4, dtype=int), "expected"),
    ],
)
def test_unusable_arrays(array: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(array)


def test_features_by_name_for_an_object() -> None:
    nx = pytest.importorskip("networkx")
    table = pd.DataFrame({"id": ["b", "a"], "p": [2.0, 1.0]})
    graph = read(nx.Graph([("a", "b")]), features=table)
    assert graph.features is not None
    assert graph.features.tolist() == [[1.0], [2.0]]


def test_pyg_times_of_nodes_are_not_times_of_links() -> None:
    assert read(pyg(PATH, num_nodes=4, time=torch.arange(4))).times is None


def test_no_optional_or_slow_library_is_imported_at_the_top_of_a_module() -> None:
    heavy = re.compile(r"^(import|from) (torch|torch_geometric|networkx)\b", re.MULTILINE)
    folder = Path(headtail.datasets.__file__).parent
    assert [path.name for path in folder.glob("*.py") if heavy.search(path.read_text())] == []
