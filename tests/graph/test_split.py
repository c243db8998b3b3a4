"""Splits: disjoint, complete, of the shares asked for, the same for the same seed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.config import SplitConfig
from headtail.errors import ConfigError, DataError
from headtail.graph.graph import Graph
from headtail.graph.split import Split, make_split, with_negatives
from headtail.graph.view import GraphView
from random_graphs import as_pairs, graph_of, random_links, views

NODES, LINKS = 40, 400


def dated_graph(directed: bool = True, moments: int = 20) -> Graph:
    times = torch.randint(1990, 1990 + moments, (LINKS,), generator=torch.Generator().manual_seed(4))
    return graph_of(random_links(NODES, LINKS, directed), NODES, directed, times=times)


def shares(strategy: str, valid: float = 0.1, test: float = 0.2) -> SplitConfig:
    return SplitConfig(split=strategy, valid_share=valid, test_share=test)


def parts(split: Split) -> list[list[tuple[int, int]]]:
    return [as_pairs(links) for links in (split.train, split.valid.positives, split.test.positives)]


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("strategy", ["random", "time", "source"])
def test_parts_are_disjoint_complete_and_not_empty(strategy: str, directed: bool) -> None:
    graph = dated_graph(directed)
    train, valid, test = parts(make_split(graph, shares(strategy), seed=0))
    assert all((train, valid, test))
    assert sorted(train + valid + test) == sorted(as_pairs(graph.links))


@pytest.mark.parametrize("strategy", ["random", "source"])
def test_one_seed_one_split(strategy: str) -> None:
    first, again, other = (parts(make_split(dated_graph(), shares(strategy), seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(("valid", "test"), [(0.1, 0.2), (0.05, 0.1), (0.3, 0.01)])
def test_random_shares_are_exact(valid: float, test: float) -> None:
    split = make_split(dated_graph(), shares("random", valid, test), seed=0)
    assert split.valid.positives.shape[1] == round(valid * LINKS)
    assert split.test.positives.shape[1] == round(test * LINKS)


def test_random_split_holds_out_every_link_equally_often() -> None:
    graph = graph_of(random_links(8, 20, True), 8)
    counts = torch.zeros(8, 8)
    for seed in range(300):
        held_out = make_split(graph, shares("random", 0.1, 0.2), seed).test.positives
        counts[held_out[0], held_out[1]] += 1
    expected = 300 * 4 / 20
    chi_square = float(((counts[graph.links[0], graph.links[1]] - expected) ** 2 / expected).sum())
    assert chi_square < 43.8  # 99.9 % of χ² with 19 degrees of freedom


def test_time_split_cuts_between_moments() -> None:
    graph = dated_graph()
    assert graph.times is not None
    date = dict(zip(as_pairs(graph.links), graph.times.tolist(), strict=True))
    split = make_split(graph, shares("time"), seed=0)
    train, valid, test = ([date[link] for link in part] for part in parts(split))
    assert max(train) < min(valid) <= max(valid) < min(test)
    assert split.train_times is not None
    assert split.train_times.tolist() == train
    # Each moment has about 20 of 400 links, so the nearest cut is at most half of that away, twice for valid.
    assert abs(len(test) - 80) <= 15
    assert abs(len(valid) - 40) <= 30


@given(st.lists(st.integers(0, 5), min_size=12, max_size=12))
def test_time_split_of_any_dates_keeps_order_or_says_why(dates: list[int]) -> None:
    graph = graph_of(random_links(6, 12, True), 6, times=torch.tensor(dates))
    if len(set(dates)) < 3:
        with pytest.raises(DataError, match="distinct times"):
            make_split(graph, shares("time"), seed=0)
        return
    date = dict(zip(as_pairs(graph.links), dates, strict=True))
    train, valid, test = ([date[x] for x in part] for part in parts(make_split(graph, shares("time"), 0)))
    assert max(train) < min(valid) <= max(valid) < min(test)


def test_source_split_takes_one_link_each_from_rich_heads_only() -> None:
    graph = dated_graph()
    split = make_split(graph, shares("source", 0.02, 0.03), seed=0)
    degree = torch.bincount(graph.links[0], minlength=NODES)
    valid, test = split.valid.positives[0], split.test.positives[0]
    assert sorted(valid.tolist()) == sorted(test.tolist())
    assert valid.unique().numel() == valid.numel() == round(0.03 * LINKS)
    assert int(degree[valid].min()) >= 3


def test_source_split_leaves_heads_with_two_links_alone() -> None:
    links = torch.tensor([[0, 0, 1, 1, 1], [1, 2, 0, 2, 3]])
    split = make_split(graph_of(links, 4), shares("source", 0.4, 0.4), seed=0)
    assert split.valid.positives[0].tolist() == split.test.positives[0].tolist() == [1]


def test_source_split_without_rich_heads_is_refused() -> None:
    graph = graph_of(torch.tensor([[0, 0, 1, 1], [1, 2, 0, 2]]), 3)
    with pytest.raises(DataError, match="no head has three links"):
        make_split(graph, shares("source"), seed=0)


def test_auto_prefers_given_then_time_then_random() -> None:
    links, held_out = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), torch.tensor([[0], [2]])
    times = torch.tensor([1, 2, 3, 4])
    auto = SplitConfig()
    assert make_split(graph_of(links, 5), auto, 0).strategy == "random"
    assert make_split(graph_of(links, 5, times=times), auto, 0).strategy == "time"
    given_split = make_split(graph_of(links, 5, times=times, valid=held_out, test=held_out.flip(0)), auto, 0)
    assert given_split.strategy == "given"
    assert parts(given_split)[1:] == [[(0, 2)], [(2, 0)]]


@pytest.mark.parametrize(
    ("strategy", "links", "message"),
    [
        ("random", [[0, 1], [1, 2]], "has 2 links"),
        ("time", [[0, 1, 2], [1, 2, 0]], "no times"),
        ("given", [[0, 1, 2], [1, 2, 0]], "brings no split"),
    ],
)
def test_what_cannot_be_split_is_refused(strategy: str, links: list[list[int]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_split(graph_of(torch.tensor(links), 3), shares(strategy), seed=0)


def test_nothing_left_to_train_on_is_refused() -> None:
    graph = graph_of(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4)
    with pytest.raises(DataError, match="no link is left to train on"):
        make_split(graph, shares("random", 0.49, 0.49), seed=0)


def test_a_given_split_is_not_split_again() -> None:
    held_out = torch.tensor([[0], [2]])
    graph = graph_of(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3, valid=held_out, test=held_out)
    with pytest.raises(DataError, match="brings its own split"):
        make_split(graph, shares("random"), seed=0)


def test_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'random'"):
        make_split(dated_graph(), shares("randon"), seed=0)


@given(views(), st.sampled_from(["mrr", "hits@10"]))
def test_negatives_are_never_links_nor_self_pairs(view: GraphView, metric: str) -> None:
    graph = graph_of(view.links, view.num_nodes, view.directed)
    if graph.links.shape[1] < 3:
        return
    split = make_split(graph, shares("random"), seed=0)
    try:
        drawn = with_negatives(split, graph, metric, count=5, seed=0)
    except DataError as error:
        assert "linked to every" in str(error) or "every pair" in str(error)  # noqa: PT017
        return
    known = set(as_pairs(graph.links))
    if not view.directed:
        known |= {(tail, head) for head, tail in known}
    for part in (drawn.valid, drawn.test):
        assert part.negatives is not None
        if metric == "mrr":
            assert part.negatives.shape == (part.positives.shape[1], 5)
            heads = part.positives[0].repeat_interleave(5)
            pairs = as_pairs(torch.stack([heads, part.negatives.reshape(-1)]))
        else:
            assert part.negatives.shape == (2, 5000)
            pairs = as_pairs(part.negatives)
        assert not known.intersection(pairs)
        assert all(head != tail for head, tail in pairs)


def test_given_negatives_are_kept_and_drawn_ones_differ_between_parts() -> None:
    graph = dated_graph()
    first = with_negatives(make_split(graph, shares("random"), 0), graph, "hits@10", 1, seed=0)
    again = with_negatives(first, graph, "hits@10", 1, seed=9)
    for part in ("valid", "test"):
        assert torch.equal(getattr(first, part).negatives, getattr(again, part).negatives)
    assert first.valid.negatives is not None
    assert first.test.negatives is not None
    assert not torch.equal(first.valid.negatives, first.test.negatives)


@pytest.mark.parametrize(("metric", "message"), [("mrr", "linked to every other"), ("hits@10", "every pair")])
def test_a_complete_graph_has_no_negatives(metric: str, message: str) -> None:
    graph = graph_of(random_links(5, 20, True), 5)
    with pytest.raises(DataError, match=message):
        with_negatives(make_split(graph, shares("random"), 0), graph, metric, 3, seed=0)
