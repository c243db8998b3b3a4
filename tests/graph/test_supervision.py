"""Which links are learned from: the newest given the older, where links are dated; and how dates travel."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from headtail.config import make_config
from headtail.graph.store import load_task, save_task
from headtail.graph.supervision import Supervision, supervise
from headtail.graph.task import LinkTask, make_task
from headtail.graph.view import GraphView
from random_graphs import as_links, as_pairs, graph_of, random_links

NODES = 20


def dated(times: Sequence[int] | None, directed: bool = True, nodes: int = NODES) -> GraphView:
    """Returns as many links as there are times, over all nodes."""
    count = 100 if times is None else len(times)
    links = random_links(nodes, count, directed)
    return GraphView(nodes, directed, links, None if times is None else torch.tensor(times))


def ring(times: list[int]) -> GraphView:
    """Returns links of 25 nodes that cover all nodes four times over, so that every node is known by older links."""
    pairs = [(node, (node + step) % 25) for step in (1, 2, 3, 4) for node in range(25)]
    return GraphView(25, True, as_links(pairs[: len(times)]), torch.tensor(times))


def check_cut(found: Supervision, view: GraphView, since: int) -> None:
    """What is learned from is what the rule says, link by link."""
    assert view.times is not None
    dates = dict(zip(as_pairs(view.links), view.times.tolist(), strict=True))
    older = {pair: time for pair, time in dates.items() if time < since}
    known = {node for pair in older for node in pair}
    assert dict(zip(as_pairs(found.view.links), found.view.times.tolist(), strict=True)) == older  # type: ignore[union-attr]
    assert set(as_pairs(found.links)) == {pair for pair in dates if pair not in older and known.issuperset(pair)}
    assert (found.view.num_nodes, found.view.directed) == (view.num_nodes, view.directed)
    assert found.note == (
        f"learning from the {found.links.shape[1]:,} newest links between known nodes (since {since}), "
        f"given the {len(older):,} older ones"
    )


@pytest.mark.parametrize(
    ("times", "since"),
    [
        (list(range(100)), 90),  # exactly a tenth
        ([7] * 50 + [8] * 41 + [9] * 9, 8),  # the newest moment holds too little, so the one before is taken too
        ([7] * 50 + [8] * 40 + [9] * 10, 9),
        ([7] * 10 + [8] * 90, 8),  # no moment is cut in two, though the newest holds far more than asked
        ([-3] * 60 + [-2] * 35 + [40] * 5, -2),
        ([9] * 12 + list(range(-88, 0)), 9),  # the newest come first in the list
    ],
)
def test_the_newest_moments_are_cut_off(times: list[int], since: int) -> None:
    view = ring(times)
    check_cut(supervise(view, "newest"), view, since)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("dates", [3, 10, 60])
@pytest.mark.parametrize("seed", range(3))
def test_any_dates_are_cut_by_the_rule(directed: bool, dates: int, seed: int) -> None:
    times = torch.randint(dates, (90,), generator=torch.Generator().manual_seed(seed)).tolist()
    view = dated(times, directed)
    since = max(moment for moment in times if sum(time >= moment for time in times) >= 9)
    check_cut(supervise(view, "newest"), view, since)


def test_links_of_nodes_without_an_older_link_are_neither_learned_nor_seen() -> None:
    old = [(a, b) for a in range(4) for b in range(4) if a != b]
    pairs = [*old, (0, 6), (6, 7), (3, 5)]
    view = GraphView(8, True, as_links(pairs), torch.tensor([1] * 12 + [2] * 3))
    found = supervise(view, "newest")
    assert found.note == "too few of the newest links are between known nodes, so all links are learned from"
    assert found.links is view.links
    assert found.view is view
    found = supervise(GraphView(8, True, as_links([*pairs[1:], pairs[0]]), torch.tensor([1] * 11 + [2] * 4)), "newest")
    assert as_pairs(found.links) == [old[0]]
    assert as_pairs(found.view.links) == old[1:]


@pytest.mark.parametrize("times", [[4] * 100, [4], [], [1] * 91 + [2] * 9, [1] * 95 + [2, 3, 4, 5, 6]])
def test_nearly_all_links_of_the_oldest_date_are_all_learned_from(times: list[int]) -> None:
    view = dated(times)
    found = supervise(view, "newest")
    assert found.links is view.links
    assert found.view is view
    assert found.note == "nearly all links are of the oldest date, so all are learned from"


@pytest.mark.parametrize("how", ["all", "newest"])
def test_without_times_all_links_are_learned_from(how: str) -> None:
    view = dated(None)
    found = supervise(view, how)
    assert (found.links, found.view, found.note) == (view.links, view, None)


def test_all_means_all_of_dated_links_too() -> None:
    view = ring(list(range(100)))
    assert supervise(view, "all") == Supervision(view.links, view)


# ---- how dates travel ----


def test_further_links_are_newer_than_all_others() -> None:
    view = GraphView(6, True, as_links([(0, 1), (1, 2)]), torch.tensor([8, 3]))
    more = view.with_links(as_links([(3, 4), (4, 5)]))
    assert more.times is not None
    assert more.times.tolist() == [8, 3, 9, 9]
    assert as_pairs(more.links) == [(0, 1), (1, 2), (3, 4), (4, 5)]
    assert view.times is not None
    assert view.times.tolist() == [8, 3]
    empty = GraphView(6, True, as_links([]), torch.empty(0, dtype=torch.int64)).with_links(as_links([(3, 4)]))
    assert empty.times is not None
    assert empty.times.tolist() == [0]
    assert GraphView(6, True, as_links([(0, 1)])).with_links(as_links([(3, 4)])).times is None


def test_times_move_with_the_links(device: torch.device) -> None:
    view = GraphView(6, False, as_links([(0, 1), (1, 2)]), torch.tensor([8, 3]))
    there = view.to(device)
    assert there.links.device.type == device.type
    assert there.times is not None
    assert there.times.device.type == device.type
    assert there.times.tolist() == [8, 3]
    assert there.directed is False
    assert GraphView(6, True, view.links).to(device).times is None


def task_of(**settings: object) -> LinkTask:
    links = random_links(NODES, 80, True)
    graph = graph_of(links, NODES, times=torch.arange(80) // 5)
    return make_task(graph, make_config(settings={"structure": 4, "eval_negatives": 3, **settings}))


def test_a_split_by_time_has_a_dated_view() -> None:
    task = task_of()
    view = task.train_view
    assert view.times is not None
    dates = dict(zip(as_pairs(random_links(NODES, 80, True)), (torch.arange(80) // 5).tolist(), strict=True))
    assert view.times.tolist() == [dates[pair] for pair in as_pairs(view.links)]
    held_out = [dates[pair] for pair in as_pairs(task.split.valid.positives)]
    assert int(view.times.max()) < min(held_out)


@pytest.mark.parametrize("split", ["random", "source"])
def test_a_split_beside_time_has_none(split: str) -> None:
    """Old links are held out beside new ones: age would mean one thing to training and another to the test."""
    task = task_of(split=split)
    assert task.split.train_times is not None
    assert task.train_view.times is task.test_view.times is None


def test_a_split_that_came_with_the_graph_keeps_times() -> None:
    links = random_links(NODES, 80, True)
    graph = graph_of(links[:, :60], NODES, times=list(range(60)), valid=links[:, 60:70], test=links[:, 70:])
    task = make_task(graph, make_config(settings={"structure": 4, "eval_negatives": 3}))
    assert task.train_view.times is not None
    assert task.train_view.times.tolist() == list(range(60))


def test_validation_links_to_train_on_have_no_times() -> None:
    assert task_of(protocol="val-as-train").train_view.times is None


@pytest.mark.parametrize("split", ["time", "random"])
@pytest.mark.parametrize("test_graph", ["train", "train+valid"])
def test_times_of_views_come_back_from_disk(split: str, test_graph: str, tmp_path: Path) -> None:
    task = task_of(split=split, test_graph=test_graph)
    save_task(task, tmp_path)
    back = load_task(tmp_path)
    for old, new in ((task.train_view, back.train_view), (task.test_view, back.test_view)):
        if split == "random":
            assert old.times is new.times is None
        else:
            assert old.times is not None
            assert new.times is not None
            assert torch.equal(old.times, new.times)
            assert old.times.numel() == old.links.shape[1]
    if split == "time" and test_graph == "train+valid":
        assert int(back.test_view.times[-1]) == int(back.train_view.times.max()) + 1  # type: ignore[union-attr,index]
