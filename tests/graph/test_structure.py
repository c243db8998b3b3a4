"""Structural features: by definition, read off the links of a view, and no trace of held-out links."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from evidence_oracle import adjacency
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from headtail.config import make_config
from headtail.graph.structure import STRUCTURES, FixedColumns, SpectralBasis, read_structure, spectral_structure
from headtail.graph.task import make_task
from headtail.graph.view import GraphView
from random_graphs import as_links, as_pairs, graph_of, random_links, random_view, views

Matrix = NDArray[np.float64]
DIRECTED = pytest.mark.parametrize("directed", [True, False])


def own_columns(view: GraphView, dim: int, seed: int = 0) -> Tensor:
    """Returns what all links of the view say, on the basis that they make."""
    return spectral_structure(view, dim, seed).columns(view)


def hiding(view: GraphView, *places: int) -> GraphView:
    """Returns the view without some of its links."""
    shown = torch.ones(view.links.shape[1], dtype=torch.bool)
    shown[list(places)] = False
    return GraphView(view.num_nodes, view.directed, view.links[:, shown])


def changed_rows(one: Tensor, other: Tensor) -> set[int]:
    return set((one != other).any(dim=1).nonzero().flatten().tolist())


# ---- shape ----


def test_features_are_made_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setitem(STRUCTURES._entries, "noted", lambda *rest: made.append(1) or spectral_structure(*rest))
    graph = graph_of(random_links(40, 120, directed=True), 40)
    task = make_task(graph, make_config(settings={"structure_from": "noted", "eval_negatives": 5}))
    assert made == []
    assert task.features is task.features
    assert made == [1]


@DIRECTED
@pytest.mark.parametrize(("nodes", "dim", "columns"), [(40, 8, 8), (40, 16, 16)])
def test_shape_and_type(directed: bool, nodes: int, dim: int, columns: int) -> None:
    view = random_view(nodes, 120, directed)
    structure = spectral_structure(view, dim)
    features = structure.columns(view)
    assert features.shape == (nodes, structure.width) == (nodes, columns)
    assert features.dtype == torch.float32
    assert torch.isfinite(features).all()


@pytest.mark.parametrize("dim", [1, 7])
def test_odd_numbers_of_columns_of_directed_graphs(dim: int) -> None:
    view = random_view(40, 120, True)
    structure = spectral_structure(view, dim)
    assert structure.columns(view).shape == (40, structure.width) == (40, dim)


@pytest.mark.parametrize(("directed", "columns"), [(True, 8), (False, 4)])
def test_tiny_graphs_get_fewer_columns(directed: bool, columns: int) -> None:
    view = random_view(5, 6, directed)
    structure = spectral_structure(view, 128)
    features = structure.columns(view)
    assert features.shape == (5, structure.width) == (5, columns)
    assert torch.isfinite(features).all()


@DIRECTED
def test_one_seed_one_result(directed: bool) -> None:
    view = random_view(40, 120, directed)
    assert torch.equal(own_columns(view, 8, seed=3), own_columns(view, 8, seed=3))


def test_order_of_links_does_not_matter() -> None:
    view = random_view(40, 120, False)
    flipped = GraphView(40, False, view.links.flip(1))
    torch.testing.assert_close(own_columns(view, 8), own_columns(flipped, 8))


def test_nodes_with_the_same_neighbours_are_alike() -> None:
    links = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 5], [3, 4, 5, 3, 4, 5, 6, 7, 7]])
    features = own_columns(GraphView(8, False, links), 4)
    like, unlike = torch.cosine_similarity(features[0], features[torch.tensor([1, 2])])
    assert like > 0.999
    assert unlike < 0.9


# ---- by definition ----


def by_degree(matrix: Matrix) -> Matrix:
    """Returns D^-½ M, every row divided by the root of the sum of its entries."""
    return matrix / np.sqrt(np.maximum(matrix.sum(axis=1, keepdims=True), 1))


def normalised(view: GraphView) -> Matrix:
    """Returns D^-½ A D^-½, with the out-degrees on the left and the in-degrees on the right."""
    matrix = adjacency(view)
    return by_degree(matrix) / np.sqrt(np.maximum(matrix.sum(axis=0, keepdims=True), 1))


def with_unit_mean_square(columns: Matrix) -> Matrix:
    length = np.linalg.norm(columns, axis=1, keepdims=True)
    return np.sqrt(columns.shape[1]) * np.divide(columns, length, where=length > 0, out=np.zeros_like(columns))


@DIRECTED
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dim", [3, 8, 12])
def test_columns_of_all_links_by_definition(directed: bool, seed: int, dim: int) -> None:
    """Left vectors (and right ones of directed graphs) times √σ, every row of mean square 1."""
    view = random_view(16, 60, directed, seed)
    u, values, vt = np.linalg.svd(normalised(view))
    rank = -(-dim // 2) if directed else dim
    gaps = -np.diff(values[: rank + 1])
    assert gaps.min() > 5e-4, "vectors of one value are only unique up to a rotation"
    halves = [u, vt.T] if directed else [u]
    both = np.concatenate([half[:, :rank] * np.sqrt(values[:rank]) for half in halves], axis=1)
    wanted = with_unit_mean_square(both[:, :dim])
    found = own_columns(view, dim).numpy()
    signs = np.sign((found * wanted).sum(axis=0))
    np.testing.assert_allclose(found * signs, wanted, atol=2e-3)
    if directed:  # the two halves turn together, so that their products mean something
        assert (signs[: dim - rank] == signs[rank:]).all()


@DIRECTED
@pytest.mark.parametrize("hidden", [[], [0], [3, 4, 11, 20]])
def test_columns_of_fewer_links_by_definition(directed: bool, hidden: list[int]) -> None:
    """What a link adds is fixed by the basis; the rows of the links that are left are summed and divided."""
    view = random_view(16, 50, directed)
    basis, shown = spectral_structure(view, 6), hiding(view, *hidden)
    found = by_degree(adjacency(shown)) @ basis.per_tail.double().numpy()
    assert (basis.per_head is not None) == directed
    if basis.per_head is not None:
        back = by_degree(adjacency(shown).T) @ basis.per_head.double().numpy()
        found = np.concatenate([found, back], axis=1)
    wanted = with_unit_mean_square(found)
    np.testing.assert_allclose(basis.columns(shown).numpy(), wanted, atol=1e-4)


@given(views(), st.integers(1, 12))
def test_rows_of_any_graph_have_mean_square_one_or_no_links(view: GraphView, dim: int) -> None:
    features = own_columns(view, dim)
    assert torch.isfinite(features).all()
    linked = view.neighbours.degrees > 0
    assert not features[~linked].any()
    squares = features.square().mean(dim=1)
    # Where columns are few, links may all lie in directions that are left out.
    assert (((squares - 1).abs() < 1e-4) | (squares == 0)).all()


@DIRECTED
def test_all_nodes_with_links_are_described_where_columns_are_enough(directed: bool) -> None:
    view = random_view(30, 90, directed)
    features = own_columns(view, 60)
    linked = view.neighbours.degrees > 0
    assert 0 < int(linked.sum()) < 30
    torch.testing.assert_close(features[linked].square().mean(dim=1), torch.ones(int(linked.sum())))
    assert not features[~linked].any()


# ---- what a view does not show ----


@DIRECTED
def test_a_node_without_links_in_the_view_gets_zeros(directed: bool) -> None:
    view = random_view(20, 50, directed)
    basis = spectral_structure(view, 8)
    node = int(view.links[0, 0])
    places = (view.links == node).any(dim=0).nonzero().flatten().tolist()
    assert basis.columns(view)[node].abs().sum() > 1
    assert not basis.columns(hiding(view, *places[:-1]))[node].isnan().any()
    assert not basis.columns(hiding(view, *places))[node].any()
    nothing = GraphView(20, directed, view.links[:, :0])
    assert torch.equal(basis.columns(nothing), torch.zeros(20, 8))


@DIRECTED
def test_a_hidden_link_changes_its_two_ends_alone(directed: bool) -> None:
    view = random_view(20, 50, directed)
    basis = spectral_structure(view, 8)
    every = basis.columns(view)
    for place, ends in enumerate(as_pairs(view.links)):
        assert changed_rows(every, basis.columns(hiding(view, place))) == set(ends)


def test_a_hidden_link_of_a_directed_graph_changes_a_half_of_each_end() -> None:
    """What its head links to, and what links to its tail; the length of a row is that of both halves."""
    view = random_view(20, 60, True)
    basis = spectral_structure(view, 8)
    head, tail = as_pairs(view.links)[0]
    for node, kept in ((head, slice(4, 8)), (tail, slice(0, 4))):
        before, after = (basis.columns(seen)[node, kept] for seen in (view, hiding(view, 0)))
        assert before.abs().sum() > 0.1
        torch.testing.assert_close(torch.cosine_similarity(before, after, dim=0), torch.tensor(1.0))
        changed = slice(0, 4) if kept.start else slice(4, 8)
        before, after = (basis.columns(seen)[node, changed] for seen in (view, hiding(view, 0)))
        assert torch.cosine_similarity(before, after, dim=0) < 0.999


@given(views(min_links=2), st.data())
def test_what_is_hidden_of_any_graph_changes_its_ends_alone(view: GraphView, data: st.DataObject) -> None:
    places = st.integers(0, view.links.shape[1] - 1)
    hidden = data.draw(st.lists(places, min_size=1, unique=True))
    basis = spectral_structure(view, 6)
    found = basis.columns(hiding(view, *hidden))
    assert torch.isfinite(found).all()
    assert changed_rows(basis.columns(view), found) <= set(view.links[:, hidden].flatten().tolist())


# ---- directions of hardly any weight ----


def stars(directed: bool) -> GraphView:
    """Returns three stars of five leaves: rank 3, or 6 where links lead both ways."""
    pairs = [(hub, 3 + 5 * hub + leaf) for hub in range(3) for leaf in range(5)]
    return GraphView(20, directed, as_links(pairs))


@pytest.mark.parametrize(("directed", "rank"), [(True, 3), (False, 6)])
def test_directions_of_hardly_any_weight_are_empty(directed: bool, rank: int) -> None:
    view = stars(directed)
    assert np.linalg.matrix_rank(normalised(view)) == rank
    basis = spectral_structure(view, 24 if directed else 12)
    assert basis.per_tail.shape == (20, 12)
    for part in basis.tensors().values():
        assert torch.isfinite(part).all()
        assert (part[:, :rank].abs().sum(dim=0) > 0.1).all()
        assert not part[:, rank:].any()
    every = basis.columns(view)
    assert changed_rows(every, torch.zeros_like(every)) == set(range(18))
    for places in [(0,), (0, 1, 2, 3), (0, 1, 2, 3, 4), tuple(range(15))]:
        found = basis.columns(hiding(view, *places))
        assert torch.isfinite(found).all()
        assert changed_rows(every, found) <= set(view.links[:, list(places)].flatten().tolist())
        assert float(found.square().mean(dim=1).max()) < 1.001


@DIRECTED
def test_directions_are_kept_down_to_a_hundredth_of_the_first(directed: bool) -> None:
    view = random_view(60, 400, directed)
    values = np.linalg.svd(normalised(view), compute_uv=False)
    assert ((values > 1e-3) & (values < 0.01 * values[0])).sum() == 2, "small values, and not for want of links"
    basis = spectral_structure(view, 118 if directed else 59)
    assert basis.width == (118 if directed else 59)
    for part in basis.tensors().values():
        kept = part.abs().sum(dim=0) > 0
        assert torch.equal(kept, torch.from_numpy(values[:59] > 0.01 * values[0]))


@DIRECTED
@pytest.mark.parametrize("pairs", [[], [(0, 1)]])
def test_graphs_of_hardly_any_links_have_finite_columns(directed: bool, pairs: list[tuple[int, int]]) -> None:
    view = GraphView(3, directed, as_links(pairs))
    basis = spectral_structure(view, 4)
    features = basis.columns(view)
    assert features.shape == (3, basis.width)
    assert torch.isfinite(features).all()
    assert set(features.any(dim=1).nonzero().flatten().tolist()) == {node for pair in pairs for node in pair}
    assert not basis.columns(GraphView(3, directed, as_links([]))).any()


# ---- what is kept, and where ----


MAKERS: dict[str, Callable[[GraphView], SpectralBasis | FixedColumns]] = {
    "spectral": lambda view: spectral_structure(view, 7),
    "fixed": lambda view: FixedColumns(torch.randn(view.num_nodes, 3, generator=torch.Generator().manual_seed(0))),
}


@DIRECTED
@pytest.mark.parametrize("maker", MAKERS)
def test_structure_is_read_from_its_tensors(maker: str, directed: bool) -> None:
    view = random_view(20, 50, directed)
    structure = MAKERS[maker](view)
    back = read_structure(structure.tensors(), structure.width)
    assert type(back) is type(structure)
    assert back.width == structure.width == back.columns(view).shape[1]
    for shown in (view, hiding(view, 0, 7)):
        assert torch.equal(back.columns(shown), structure.columns(shown))


@DIRECTED
@pytest.mark.parametrize("maker", MAKERS)
def test_structure_on_every_device(maker: str, directed: bool, device: torch.device) -> None:
    view = random_view(20, 50, directed)
    structure = MAKERS[maker](view)
    there = structure.to(device)
    assert {tensor.device.type for tensor in there.tensors().values()} == {device.type}
    for shown in (view, hiding(view, 0, 7)):
        found = there.columns(shown.to(device))
        assert found.device.type == device.type
        torch.testing.assert_close(found.cpu(), structure.columns(shown))


# ---- of a task ----


@DIRECTED
def test_features_of_a_task_use_training_links_alone(directed: bool) -> None:
    graph = graph_of(random_links(40, 160, directed), 40, directed)
    task = make_task(graph, make_config(settings={"structure": 8, "seed": 5, "eval_negatives": 2}))
    train = GraphView(40, directed, task.split.train)
    every = GraphView(40, directed, graph.links)
    assert torch.equal(task.features, own_columns(train, 8, seed=5))
    assert not torch.allclose(task.features, own_columns(every, 8, seed=5))
