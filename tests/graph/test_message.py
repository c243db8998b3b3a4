"""The message graph and pre-encoding against dense matrices built from METHOD 1's definition."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.graph.message import NORMALISATIONS, MessageGraph, add_self_loops, normalise
from headtail.graph.view import GraphView
from random_graphs import as_links, dense, dense_messages, message_graph, random_view, views

normalisations = pytest.mark.parametrize("normalisation", ["row", "column", "symmetric"])


def test_the_three_normalisations_are_offered() -> None:
    assert sorted(NORMALISATIONS) == ["column", "row", "symmetric"]
    with pytest.raises(ValueError, match="unknown normalisation"):
        normalise(add_self_loops(random_view()), "rows")


@normalisations
@given(views())
def test_adjacency_equals_its_definition(normalisation: str, view: GraphView) -> None:
    graph = message_graph(view, normalisation=normalisation)
    np.testing.assert_allclose(dense(graph.adjacency), dense_messages(view, normalisation), rtol=1e-6)


@normalisations
@given(views(), st.integers(1, 4))
def test_pre_encoding_is_the_power_of_the_adjacency(normalisation: str, view: GraphView, layers: int) -> None:
    graph = message_graph(view, normalisation=normalisation, layers=layers)
    x = graph.features.double().numpy()
    wanted = np.linalg.matrix_power(dense_messages(view, normalisation), layers) @ x
    np.testing.assert_allclose(graph.pre_encoded.numpy(), wanted, atol=1e-5)


@normalisations
@given(views())
def test_relative_weight_is_what_an_entry_counts_beside_a_plain_mean(normalisation: str, view: GraphView) -> None:
    graph = message_graph(view, normalisation=normalisation)
    exact, mean = dense_messages(view, normalisation), dense_messages(view, "row")
    rows, cols = graph.adjacency.row.numpy(), graph.adjacency.col.numpy()
    found = np.ones(len(rows)) if graph.relative_weight is None else graph.relative_weight.numpy()
    np.testing.assert_allclose(found, exact[rows, cols] / mean[rows, cols], rtol=1e-6)


@given(views())
def test_diagonal_points_at_the_self_loops(view: GraphView) -> None:
    graph = message_graph(view)
    nodes = torch.arange(view.num_nodes)
    assert torch.equal(graph.adjacency.row[graph.diagonal], nodes)
    assert torch.equal(graph.adjacency.col[graph.diagonal], nodes)


def test_directed_links_in_both_directions_are_one_neighbour() -> None:
    view = GraphView(3, True, as_links([(0, 1), (1, 0), (1, 2)]))
    assert add_self_loops(view).degrees.tolist() == [2, 3, 2]


def test_two_message_graphs_have_their_own_pre_encoding() -> None:
    view = random_view()
    features = torch.randn(view.num_nodes, 3)
    train = MessageGraph.build(view, features, "row", 2)
    test = MessageGraph.build(view.with_links(as_links([(18, 19)])), features, "row", 2)
    changed = (train.pre_encoded != test.pre_encoded).any(dim=1)
    assert changed.nonzero().squeeze(1).tolist() == [18, 19]


@normalisations
def test_message_graph_on_every_device(normalisation: str, device: torch.device) -> None:
    view = random_view(40, 120)
    graph = message_graph(view, normalisation=normalisation, device=device)
    assert graph.device.type == graph.pre_encoded.device.type == device.type
    wanted = np.linalg.matrix_power(dense_messages(view, normalisation), 2) @ graph.features.cpu().numpy()
    np.testing.assert_allclose(graph.pre_encoded.cpu().numpy(), wanted, atol=1e-5)
