"""Cleaning: links once, no self-loops, the earliest time, and refusal of what is no graph."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtail.datasets.raw import RawGraph, RawSplit
from headtail.errors import DataError
from headtail.graph.graph import build_graph
from random_graphs import Pairs, as_pairs, graph_of

NODES = 5
dated_links = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.integers(-3, 9)), min_size=1, max_size=40
)


@pytest.mark.parametrize("directed", [True, False])
@given(dated_links)
def test_cleaning_equals_a_dictionary(directed: bool, dated: list[tuple[int, int, int]]) -> None:
    first: dict[tuple[int, int], int] = {}
    loops = 0
    for head, tail, time in dated:
        if head == tail:
            loops += 1
            continue
        key = (head, tail) if directed else (min(head, tail), max(head, tail))
        first[key] = min(time, first.get(key, time))
    pairs, times = [(head, tail) for head, tail, _ in dated], [time for *_, time in dated]
    if not first:
        with pytest.raises(DataError, match="no links"):
            graph_of(pairs, NODES, directed, times)
        return
    graph = graph_of(pairs, NODES, directed, times)
    assert graph.times is not None
    assert dict(zip(as_pairs(graph.links), graph.times.tolist(), strict=True)) == first
    assert graph.cleaning.self_loops == loops
    assert graph.cleaning.duplicates == len(dated) - loops - len(first)
    assert as_pairs(graph_of(pairs, NODES, directed).links) == as_pairs(graph.links)


def test_the_report_names_both_counts() -> None:
    graph = graph_of([(0, 1), (1, 0), (2, 2), (0, 1)], 3, directed=False)
    assert str(graph.cleaning) == "dropped 1 self-loops and 2 duplicate links"


@pytest.mark.parametrize(("pairs", "nodes", "message"), [([(0, 0)], 1, "1 node;"), ([], 3, "no links")])
def test_what_is_no_graph_is_refused(pairs: Pairs, nodes: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        graph_of(pairs, nodes)


@pytest.mark.parametrize("part", ["links", "validation links", "test links", "negatives of the test links"])
@pytest.mark.parametrize("stranger", [-1, 3])
def test_a_node_that_the_graph_lacks_is_named(part: str, stranger: int) -> None:
    parts = {
        name: np.array([[0], [1]])
        for name in ("links", "validation links", "test links", "negatives of the test links")
    }
    parts[part] = np.array([[0], [stranger]])
    links, valid, test, negatives = parts.values()
    raw = RawGraph("a test", 3, links, True, split=RawSplit(valid, test, None, negatives))
    with pytest.raises(DataError, match=rf"a test, {part}: node {stranger} is outside 0 … 2"):
        build_graph(raw)


@pytest.mark.parametrize("empty", ["valid", "test"])
def test_a_given_split_needs_links_to_hold_out(empty: str) -> None:
    held_out: dict[str, Pairs] = {"valid": [(0, 1)], "test": [(1, 2)], empty: []}
    with pytest.raises(DataError, match="at least one"):
        graph_of([(0, 2)], 3, valid=held_out["valid"], test=held_out["test"])
