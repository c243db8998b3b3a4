"""Local numbers of the distinct nodes of a batch, against Python's dictionaries."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.sampling.numbering import Numbering

NODES = 12
node_lists = st.lists(st.integers(0, NODES - 1), max_size=20)


def tensor(nodes: list[int]) -> torch.Tensor:
    return torch.tensor(nodes, dtype=torch.int64)


@given(st.lists(node_lists, min_size=1, max_size=4))
def test_distinct_forgets_the_call_before(lists: list[list[int]]) -> None:
    numbering = Numbering(NODES, torch.device("cpu"))
    for nodes in lists:
        assert numbering.distinct(tensor(nodes)).tolist() == sorted(set(nodes))


@given(st.lists(st.tuples(st.permutations(range(NODES)), st.integers(0, NODES), node_lists), max_size=3))
def test_extend_keeps_the_first_and_numbers_all(calls: list[tuple[list[int], int, list[int]]]) -> None:
    numbering = Numbering(NODES, torch.device("cpu"))
    for order, count, others in calls:
        first = list(order[:count])
        nodes = numbering.extend(tensor(first), tensor(others)).tolist()
        assert nodes[:count] == first
        assert sorted(nodes) == sorted({*first, *others})
        asked = others + first
        assert numbering.local(tensor(asked)).tolist() == [nodes.index(node) for node in asked]
