"""The view of all links: what it holds, how it is dated, and that it stays what it is."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from headtail.config import make_config
from headtail.datasets.raw import RawGraph
from headtail.graph.graph import Graph, HeldOut, build_graph
from headtail.graph.split import Split
from headtail.graph.task import LinkTask, make_task
from headtail.graph.view import GraphView, ServingView
from random_graphs import Pairs, as_links, as_pairs
from tiny_runs import SMALL, small_graph

Dates = dict[tuple[int, int], int]


def task_of(graph: Graph, **settings: Any) -> LinkTask:
    return make_task(graph, make_config(settings=SMALL | settings))


def dates(view: GraphView) -> Dates:
    assert view.times is not None
    return dict(zip(as_pairs(view.links), view.times.tolist(), strict=True))


def given(train: Pairs, valid: Pairs, test: Pairs, times: list[int] | None = None) -> Split:
    dated = None if times is None else torch.tensor(times)
    return Split(as_links(train), dated, HeldOut(as_links(valid)), HeldOut(as_links(test)), "given")


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
@pytest.mark.parametrize("split", ["random", "time", "source"])
def test_it_shows_every_link_once(directed: bool, split: str) -> None:
    graph = small_graph(directed=directed, dated=True)
    view = task_of(graph, split=split).serving_view
    assert sorted(as_pairs(view.links)) == sorted(as_pairs(graph.links))
    assert (view.num_nodes, view.directed) == (60, directed)


def test_links_split_by_time_keep_their_times() -> None:
    graph = small_graph(dated=True)
    assert graph.times is not None
    assert dates(task_of(graph).serving_view) == dict(zip(as_pairs(graph.links), graph.times.tolist(), strict=True))


@pytest.mark.parametrize(
    ("dated", "settings"),
    [(False, {}), (True, {"split": "random"}), (True, {"split": "source"})],
)
def test_where_training_shows_no_dates_there_are_none(dated: bool, settings: dict[str, Any]) -> None:
    task = task_of(small_graph(dated=dated), **settings)
    assert task.train_view.times is None
    assert task.serving_view.times is None


def test_held_out_links_without_times_are_the_newest() -> None:
    split = given([(0, 1), (1, 2)], [(2, 3), (3, 4)], [(4, 5)], [70, 50])
    view = split.serving_view(split.training_view(6, True))
    assert dates(view) == {(0, 1): 70, (1, 2): 50, (2, 3): 71, (3, 4): 71, (4, 5): 72}


def test_nothing_is_newer_than_the_latest_time_that_can_be_written() -> None:
    latest = 2**63 - 1
    split = given([(0, 1), (1, 2)], [(2, 3)], [(4, 5)], [latest, 1])
    view = split.serving_view(split.training_view(6, True))
    assert dates(view) == {(0, 1): latest, (1, 2): 1, (2, 3): latest, (4, 5): latest}


@pytest.mark.parametrize("directed", [True, False])
def test_a_link_that_is_held_out_twice_is_shown_once_with_its_first_date(directed: bool) -> None:
    split = given([(0, 1), (1, 2)], [(2, 3), (1, 0)], [(2, 3), (3, 2), (1, 2)], [5, 9])
    view = split.serving_view(split.training_view(4, directed))
    back = {(1, 0): 10, (3, 2): 11} if directed else {}
    assert dates(view) == {(0, 1): 5, (1, 2): 9, (2, 3): 10} | back


def test_validation_links_that_are_trained_on_are_there_once() -> None:
    graph = small_graph()
    task = task_of(graph, protocol="val-as-train")
    assert sorted(as_pairs(task.serving_view.links)) == sorted(as_pairs(graph.links))


def test_what_was_dropped_from_training_is_a_link_as_long_as_it_is_held_out() -> None:
    links = as_links([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]).numpy()
    graph = build_graph(RawGraph("a test", 5, links, True))
    given_too = replace(graph, valid=HeldOut(as_links([(0, 1)])), test=HeldOut(as_links([(4, 0)])))
    task = task_of(given_too, drop_leaks=True, eval_negatives=1, featureless=2)
    assert sorted(as_pairs(task.train_view.links)) == [(0, 2), (1, 2), (2, 3), (3, 0)]
    assert sorted(as_pairs(task.serving_view.links)) == [(0, 1), (0, 2), (1, 2), (2, 3), (3, 0), (4, 0)]


def test_what_is_made_of_it_is_of_its_kind() -> None:
    view = task_of(small_graph(dated=True)).serving_view
    more = torch.tensor([[0], [59]])
    for made in (view.to("cpu"), view.with_links(more), view.with_links(more).to("cpu"), replace(view, times=None)):
        assert isinstance(made, ServingView)
    assert not isinstance(task_of(small_graph()).train_view, ServingView)
    seen, plain = view.with_links(more), GraphView(60, True, view.links, view.times).with_links(more)
    assert torch.equal(seen.links, plain.links)
    assert dates(seen) == dates(plain)
