"""Counters of work against a count by hand (METHOD 9), on a graph whose batches are known beforehand."""

from typing import Any

import pytest
import torch

from headtail import LinkPredictor
from headtail.graph.graph import Graph
from headtail.training.observer import Observer, Record
from random_graphs import Pairs, graph_of
from tiny_runs import SMALL

NODES = 12
# Degrees from one to four, two heads without links, a node (11) without any.
TRAIN: Pairs = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 5), (3, 0), (4, 6), (5, 7), (6, 8), (7, 9), (8, 10), (9, 0)]
HELD_OUT: Pairs = [(1, 6), (2, 9), (5, 0)]


def neighbours(node: int) -> set[int]:
    """The node and whoever it is linked with in either direction."""
    return {node} | {b for a, b in TRAIN if a == node} | {a for a, b in TRAIN if b == node}


def around(nodes: set[int]) -> set[int]:
    return set().union(*(neighbours(node) for node in nodes))


def one_epoch(graph: Graph, **settings: Any) -> Record:
    exact = (
        SMALL
        | {"preset": "fast", "epochs": 1, "structure": 4, "neighbours": "full", "negatives_per_positive": 1}
        | settings
    )
    return LinkPredictor(**exact).fit(graph, observer=Observer()).history[0]


@pytest.fixture
def graph() -> Graph:
    return graph_of(TRAIN, NODES, valid=HELD_OUT[:1], test=HELD_OUT[1:])


HEADS = {head for head, _tail in TRAIN}


def test_one_batch_encodes_each_head_once(graph: Graph) -> None:
    # With 60 random tails for every link, every node is a tail of the batch.
    record = one_epoch(graph, links_per_batch=100, negatives_per_positive=60)
    assert record["gnn_node_encodings"] == len(HEADS) + len(around(HEADS))
    assert record["blocked_node_encodings"] == 0
    assert record["mlp_node_encodings"] == NODES
    assert record["pairs_scored"] == len(TRAIN) * 61
    assert record["links"] == len(TRAIN)


def test_three_layers_reach_two_steps_further(graph: Graph) -> None:
    record = one_epoch(graph, links_per_batch=100, layers=3)
    first, second = around(HEADS), around(around(HEADS))
    assert record["gnn_node_encodings"] == len(HEADS) + len(first) + len(second)


def test_row_batches_encode_a_head_once_and_edge_batches_once_per_link(graph: Graph) -> None:
    rows = one_epoch(graph, batches="rows", links_per_batch=1)  # one row a batch
    edges = one_epoch(graph, batches="edges", links_per_batch=1)  # one link a batch
    assert rows["gnn_node_encodings"] == sum(1 + len(neighbours(head)) for head in HEADS)
    assert edges["gnn_node_encodings"] == sum(1 + len(neighbours(head)) for head, _tail in TRAIN)
    assert edges["mlp_node_encodings"] == 3 * len(TRAIN)  # head, tail and a negative that is neither
    assert rows["pairs_scored"] == edges["pairs_scored"] == 2 * len(TRAIN)
    assert rows["gnn_node_encodings"] < edges["gnn_node_encodings"]


def test_rows_are_tails_in_the_reversed_method(graph: Graph) -> None:
    record = one_epoch(graph, reverse=True, negatives="uniform", links_per_batch=1, batches="rows")
    tails = {tail for _head, tail in TRAIN}
    assert record["gnn_node_encodings"] == sum(1 + len(neighbours(tail)) for tail in tails)


def test_the_symmetric_method_encodes_every_node_with_its_gnn(graph: Graph) -> None:
    record = one_epoch(graph, method="symmetric", links_per_batch=100, negatives_per_positive=60)
    assert record["gnn_node_encodings"] == NODES + NODES
    assert record["mlp_node_encodings"] == 0


def test_smlp_encodes_every_node_with_its_mlp(graph: Graph) -> None:
    record = one_epoch(graph, method="smlp", links_per_batch=100, negatives_per_positive=60)
    assert record["gnn_node_encodings"] == record["blocked_node_encodings"] == 0
    assert record["mlp_node_encodings"] == NODES


def test_an_undirected_link_is_learned_both_ways() -> None:
    record = one_epoch(graph_of(TRAIN, NODES, False, valid=HELD_OUT[:1], test=HELD_OUT[1:]), links_per_batch=100)
    distinct = {tuple(sorted(pair)) for pair in TRAIN}
    assert record["links"] == 2 * len(distinct)
    assert record["pairs_scored"] == 4 * len(distinct)


def test_blocked_nodes_count_apart() -> None:
    # A star of eight: at the output layer the hub keeps one of its nine entries and blocks one more. If it keeps
    # itself, it alone is expanded below; if a leaf, both are. Whatever was blocked is an MLP there.
    star = graph_of([(0, leaf) for leaf in range(1, 9)], 10, valid=[(9, 1)], test=[(9, 2)])
    record = one_epoch(star, neighbours="bns", fanout_output=1, fanout_inner=1, links_per_batch=100)
    assert record["gnn_node_encodings"] + record["blocked_node_encodings"] in (1 + 2, 1 + 3)
    assert record["gnn_node_encodings"] in (1 + 1, 1 + 2)


def test_evaluate_tells_the_work_of_an_epoch(graph: Graph) -> None:
    model = LinkPredictor(**(SMALL | {"preset": "fast", "epochs": 2, "structure": 4})).fit(graph, observer=Observer())
    wanted = {name: model.history[-1][name] for name in model.evaluate()["per_epoch"]}
    assert len(wanted) == 4
    assert model.evaluate()["per_epoch"] == wanted
    assert torch.tensor(list(wanted.values())).sum() > 0
