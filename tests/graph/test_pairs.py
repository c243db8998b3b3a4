"""What is asked about pairs: entries of rows, listed whole or as an even sample, sums, common neighbours."""

import numpy as np
import pytest
import torch
from evidence_oracle import VIEWS, adjacency, all_pairs, hub_view
from hypothesis import given
from hypothesis import strategies as st

from headtail.graph import pairs as module
from headtail.graph.pairs import Pairs, list_entries, sum_by_owner
from headtail.graph.view import GraphView
from random_graphs import as_links, views

ASKED = pytest.mark.parametrize("view", [view for _, view in VIEWS], ids=[name for name, _ in VIEWS])
DIRECTED = pytest.mark.parametrize("directed", [True, False])


@ASKED
def test_short_rows_are_listed_whole(view: GraphView) -> None:
    rows = view.out_rows
    wanted = torch.tensor([2, 0, 1, 2])
    listed = list_entries(rows, wanted)
    owner, entry = rows.entries_of(wanted)
    assert torch.equal(listed.owner, owner)
    assert torch.equal(listed.entry, entry)
    assert (listed.weight == 1).all()


@pytest.mark.parametrize("most", [1, 3, 4, 7])
@pytest.mark.parametrize("leaves", [3, 4, 5, 11, 29, 100])
def test_long_rows_are_listed_evenly(most: int, leaves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", most)
    rows = GraphView(leaves + 1, True, as_links([(0, leaf) for leaf in range(1, leaves + 1)])).neighbours
    listed = list_entries(rows, torch.tensor([1, 0, 0]))
    assert torch.bincount(listed.owner).tolist() == [1, *[min(most, leaves)] * 2]
    for place in (1, 2):
        mine = listed.owner == place
        entry = listed.entry[mine] - rows.row_ptr[0]
        assert int(entry.min()) == 0
        assert int(entry.max()) < leaves
        gaps = entry.diff().tolist()
        assert not gaps or 0 < min(gaps) <= max(gaps) <= min(gaps) + 1  # distinct and even
        assert float(listed.weight[mine].sum()) == pytest.approx(leaves)
    assert listed.weight[0] == 1  # a leaf's row is short


@given(st.lists(st.integers(0, 6), max_size=30))
def test_sums_by_owner(owners: list[int]) -> None:
    owner = torch.tensor(sorted(owners), dtype=torch.int64)
    values = torch.randn(owner.numel(), 3, generator=torch.Generator().manual_seed(0))
    wanted = torch.zeros(7, 3).index_add(0, owner, values)
    torch.testing.assert_close(sum_by_owner(owner, values, 7), wanted)


@ASKED
def test_the_links_hide_themselves(view: GraphView) -> None:
    heads, tails = all_pairs(view)
    assert Pairs(view, heads, tails).hides.float().tolist() == adjacency(view).flatten().tolist()


@given(views(min_links=0))
def test_common_neighbours_are_those_of_the_symmetric_graph(view: GraphView) -> None:
    check_common(view)


@ASKED
def test_common_neighbours_of_each_view(view: GraphView) -> None:
    check_common(view)


def check_common(view: GraphView) -> None:
    heads, tails = all_pairs(view)
    common = Pairs(view, heads, tails).common
    a = np.minimum(adjacency(view) + adjacency(view).T, 1)
    wanted = [
        (place, z)
        for place, (head, tail) in enumerate(zip(heads.tolist(), tails.tolist(), strict=True))
        for z in range(view.num_nodes)
        if a[head, z] and a[tail, z]
    ]
    assert list(zip(common.owner.tolist(), common.node.tolist(), strict=True)) == wanted
    rows = view.neighbours
    for entry, ends in ((common.head_entry, heads), (common.tail_entry, tails)):
        assert torch.equal(rows.row[entry], ends[common.owner])
        assert torch.equal(rows.col[entry], common.node)
    assert (common.weight == 1).all()


@DIRECTED
@pytest.mark.parametrize("most", [2, 3, 5])
def test_a_sample_of_common_neighbours_stands_for_all(
    directed: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = hub_view(directed)
    heads, tails = all_pairs(view)
    exact = Pairs(view, heads, tails).common
    monkeypatch.setattr(module, "MOST_ENTRIES", most)
    sample = Pairs(view, heads, tails).common
    whole = set(zip(exact.owner.tolist(), exact.node.tolist(), strict=True))
    assert set(zip(sample.owner.tolist(), sample.node.tolist(), strict=True)) < whole
    degree = view.neighbours.degrees
    short = torch.minimum(degree[heads], degree[tails])
    listed = torch.minimum(short, torch.tensor(most))[sample.owner]
    torch.testing.assert_close(sample.weight, short[sample.owner] / listed)
    # Both hubs have the same leaves: of what is listed only the other hub itself is not common.
    counts = sum_by_owner(sample.owner, sample.weight[:, None], len(heads)).squeeze(1)
    hubs = (heads == 0) & (tails == 1)
    step = float(degree[0]) / most
    assert abs(float(counts[hubs]) - int((exact.owner == int(hubs.nonzero())).sum())) <= step
    few = short <= most
    assert torch.equal(counts[few], torch.bincount(exact.owner, minlength=len(heads))[few].float())


@ASKED
def test_pairs_that_are_not_near_are_spared(view: GraphView) -> None:
    heads, tails = all_pairs(view)
    plain = Pairs(view, heads, tails).common
    near = torch.zeros(len(heads), dtype=torch.bool)
    near[plain.owner] = True
    spared = Pairs(view, heads, tails, near).common
    for name in ("owner", "node", "head_entry", "tail_entry", "weight"):
        assert torch.equal(getattr(spared, name), getattr(plain, name))
    nothing = Pairs(view, heads, tails, torch.zeros_like(near))
    assert nothing.common.owner.numel() == 0
    assert nothing.sum_over_common(torch.empty(0, 2)).eq(0).all()


def test_find_says_where() -> None:
    rows = hub_view(True).out_rows
    entry, found = rows.find(rows.row, rows.col)
    assert found.all()
    assert torch.equal(entry, torch.arange(rows.col.numel()))
    _, found = rows.find(torch.tensor([0, 16, 16]), torch.tensor([0, 0, 16]))
    assert not found.any()
    empty = GraphView(3, True, torch.empty(2, 0, dtype=torch.int64)).out_rows
    entry, found = empty.find(torch.tensor([0, 2]), torch.tensor([1, 2]))
    assert entry.tolist() == [0, 0]
    assert not found.any()
