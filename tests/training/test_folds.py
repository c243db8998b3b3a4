"""Folds: every link is learned once per epoch, from what all others say, dealt anew in every epoch."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch import Tensor

from headtail.config import make_config
from headtail.errors import ConfigError
from headtail.graph.evidence import PairEvidence
from headtail.graph.graph import Graph
from headtail.graph.message import MessageGraph
from headtail.graph.structure import SpectralBasis
from headtail.graph.task import LinkTask, make_task
from headtail.graph.view import GraphView
from headtail.sampling.batches import EdgeBatches, LinkBatches
from headtail.sampling.sampler import Batch, BatchSampler
from headtail.training.folds import FoldedBatches
from headtail.training.observer import Observer
from headtail.training.trainer import GnnMethod
from random_graphs import as_links, as_pairs, graph_of, random_links, views
from tiny_runs import SMALL, history, same_weights, small_graph, trained, weights

Links = set[tuple[int, int]]
DIRECTED = pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
REVERSE = pytest.mark.parametrize("reverse", [False, True], ids=["aml", "aml-r"])


def method_of(graph: Graph, **settings: Any) -> GnnMethod:
    config = make_config(settings=SMALL | {"folds": 4} | settings)
    return GnnMethod.create(make_task(graph, config), config)


def epoch(method: GnnMethod, seed: int = 0) -> list[Batch]:
    return list(method.batches().epoch(torch.Generator().manual_seed(seed)))


def either_way(pairs: Links) -> Links:
    return pairs | {(tail, head) for head, tail in pairs}


def learned(batches: list[Batch], reverse: bool = False) -> list[tuple[int, int]]:
    """Returns the positives of some batches, head → tail."""
    return [
        (col, row) if reverse else (row, col)
        for batch in batches
        for row, col in batch.nodes[batch.positive].T.tolist()
    ]


def messages(graph: MessageGraph) -> Links:
    """Returns the links that encoders see, without self-loops."""
    rows = graph.adjacency
    return {(a, b) for a, b in zip(rows.row.tolist(), rows.col.tolist(), strict=True) if a != b}


def folds_of(batches: list[Batch]) -> list[tuple[MessageGraph, list[Batch]]]:
    """Returns the batches that follow each other with the same message graph, and that graph."""
    found = []
    for _, group in groupby(batches, key=lambda batch: id(batch.graph)):
        fold = list(group)
        assert fold[0].graph is not None
        found.append((fold[0].graph, fold))
    return found


# ---- what is learned, and what is seen meanwhile ----


@DIRECTED
@REVERSE
@pytest.mark.parametrize("batches", ["rows", "edges"])
@pytest.mark.parametrize("folds", [2, 5])
def test_every_link_is_learned_once_from_all_others(directed: bool, reverse: bool, batches: str, folds: int) -> None:
    method = method_of(small_graph(directed), folds=folds, reverse=reverse, batches=batches)
    every: Links = set(as_pairs(method.task.train_view.links))
    dealt = epoch(method)
    positives = learned(dealt, reverse)
    assert len(set(positives)) == len(positives)
    assert set(positives) == (every if directed else either_way(every))
    found = folds_of(dealt)
    assert len(found) == folds
    sizes = []
    for graph, fold in found:
        hidden = every.intersection(learned(fold, reverse))
        assert set(learned(fold, reverse)) == (hidden if directed else either_way(hidden))
        # A link of a directed graph may be seen still where its reverse is a link too, and is not hidden.
        assert messages(graph) == either_way(every - hidden)
        sizes.append(len(hidden))
    assert max(sizes) - min(sizes) <= 1


def test_a_reverse_link_is_hidden_with_its_own_fold_alone() -> None:
    """All links of this graph have a reverse: it tells of them in training as it would in a test."""
    every: Links = {(a, b) for a in range(8) for b in range(8) if a != b}
    graph = graph_of(sorted(every), 12, valid=[(0, 8)], test=[(1, 8)])
    method = method_of(graph, folds=3, structure="auto", featureless=4, eval_negatives=2)
    told = 0
    for seen, fold in folds_of(epoch(method)):
        hidden = set(learned(fold))
        still_seen = hidden & messages(seen)
        assert still_seen == {(head, tail) for head, tail in hidden if (tail, head) not in hidden}
        told += len(still_seen)
    assert 0 < told < len(every)


class Nothing:
    """A sampler of no batches."""

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        yield from ()


@given(views(), st.integers(1, 40), st.integers(0, 3))
def test_folds_of_any_graph(view: GraphView, folds: int, seed: int) -> None:
    dealt: list[tuple[Links, GraphView]] = []

    def deal(links: Tensor) -> LinkBatches:
        return EdgeBatches(GraphView(view.num_nodes, True, links).out_rows, 3)

    def noted(batches: LinkBatches, shown: GraphView) -> Nothing:
        rows = batches.supervision
        dealt.append((set(zip(rows.row.tolist(), rows.col.tolist(), strict=True)), shown))
        return Nothing()

    source = FoldedBatches(view, folds, deal, noted)  # type: ignore[arg-type]
    assert list(source.epoch(torch.Generator().manual_seed(seed))) == []
    every = set(as_pairs(view.links))
    assert len(dealt) == min(folds, len(every))
    assert sorted(pair for hidden, _ in dealt for pair in hidden) == sorted(every)
    assert len(source) == sum(-(-len(hidden) // 3) for hidden, _ in dealt)
    for hidden, shown in dealt:
        assert (shown.num_nodes, shown.directed) == (view.num_nodes, view.directed)
        assert len(hidden) >= 1
        assert sorted(as_pairs(shown.links)) == sorted(every - hidden)


def test_one_seed_one_deal_and_every_epoch_another() -> None:
    source = method_of(small_graph()).batches()

    def deal(generator: torch.Generator) -> list[Links]:
        return [set(learned(fold)) for _, fold in folds_of(list(source.epoch(generator)))]

    generator = torch.Generator().manual_seed(1)
    first, next_one = deal(generator), deal(generator)
    assert deal(torch.Generator().manual_seed(1)) == first
    for other in (next_one, deal(torch.Generator().manual_seed(2))):
        assert not any(fold in first for fold in other)
        assert set.union(*other) == set.union(*first)


@pytest.mark.slow
@pytest.mark.parametrize("batches", ["rows", "edges"])
@DIRECTED
def test_more_folds_than_links(directed: bool, batches: str) -> None:
    pairs = [(0, 1), (1, 2), (2, 0)] if directed else [(0, 1), (1, 2), (0, 2)]
    graph = graph_of(pairs, 7, directed, valid=[(3, 4)], test=[(5, 6)])
    method = method_of(graph, folds=7, batches=batches, structure="auto", featureless=2, eval_negatives=2)
    dealt = epoch(method)
    assert len(dealt) <= len(method.batches())  # rows without links make no batch
    found = folds_of(dealt)
    assert len(found) == 3
    every = set(pairs)
    for seen, fold in found:
        hidden = every.intersection(learned(fold))
        assert len(hidden) == 1
        assert messages(seen) == either_way(every - hidden)
    assert method.fit(None, Observer()).history[0]["links"] == (3 if directed else 6)


@DIRECTED
def test_a_graph_of_one_training_link_can_be_hidden(directed: bool) -> None:
    graph = graph_of([(0, 1)], 6, directed, valid=[(2, 3)], test=[(4, 5)])
    method = method_of(graph, folds=5, structure="auto", featureless=2, eval_negatives=2)
    ((seen, _),) = folds_of(epoch(method))
    assert messages(seen) == set()
    assert not seen.features.any()
    assert method.fit(None, Observer()).epoch == SMALL["epochs"]


def test_one_fold_hides_nothing() -> None:
    method = method_of(small_graph(), folds=1)
    every = set(as_pairs(method.task.train_view.links))
    dealt = epoch(method)
    assert sorted(learned(dealt)) == sorted(every)
    ((seen, _),) = folds_of(dealt)
    assert seen is method.surroundings(method.task.train_view).graph
    assert messages(seen) == either_way(every)


@pytest.mark.parametrize("folds", [0, -1, 1.5])
def test_folds_are_counted_from_one(folds: float) -> None:
    with pytest.raises(ConfigError, match="folds"):
        make_config(settings={"folds": folds})


def test_newest_links_need_no_hiding() -> None:
    graph = graph_of(random_links(20, 150, True), 20, times=torch.arange(150) // 3)
    settings = {"supervision": "newest", "structure": "auto", "featureless": 4}
    method = method_of(graph, **settings)
    supervision = method.supervision
    dealt = epoch(method)
    assert set(learned(dealt)) == set(as_pairs(supervision.links))
    ((seen, _),) = folds_of(dealt)
    assert seen is method.surroundings(supervision.view).graph
    assert not set(as_pairs(supervision.links)) & set(as_pairs(supervision.view.links))
    assert method.notes == (supervision.note,)
    assert learned(epoch(method_of(graph, folds=1, **settings))) == learned(dealt)


def test_dated_links_are_hidden_where_all_are_learned() -> None:
    graph = graph_of(random_links(20, 150, True), 20, times=torch.arange(150) // 3)
    method = method_of(graph, supervision="all", structure="auto", featureless=4)
    every = set(as_pairs(method.task.train_view.links))
    found = folds_of(epoch(method))
    assert len(found) == 4
    for seen, fold in found:
        assert messages(seen) == either_way(every - set(learned(fold)))


# ---- batches ----


@pytest.mark.slow
@pytest.mark.parametrize("batches", ["rows", "edges"])
@DIRECTED
@pytest.mark.parametrize("folds", [2, 7])
@pytest.mark.parametrize("batches_per_epoch", [1, 20])
def test_length_is_the_number_of_batches(batches: str, directed: bool, folds: int, batches_per_epoch: int) -> None:
    method = method_of(small_graph(directed), folds=folds, batches=batches, batches_per_epoch=batches_per_epoch)
    source = method.batches()
    dealt = list(source.epoch(torch.Generator().manual_seed(0)))
    assert len(dealt) == len(source) >= max(folds, batches_per_epoch)
    for _, fold in folds_of(dealt):
        links = sum(batch.positive.shape[1] for batch in fold)
        least = -(-batches_per_epoch // folds)
        assert len(fold) == -(-links // min(64, links // least))


def test_length_costs_no_message_graph() -> None:
    source = method_of(small_graph()).batches()
    assert isinstance(source, FoldedBatches)
    made: list[BatchSampler] = []

    def counted(batches: LinkBatches, view: GraphView) -> BatchSampler:
        made.append(source.sampler(batches, view))
        return made[-1]

    watched = replace(source, sampler=counted)
    assert len({len(watched) for _ in range(5)}) == 1
    assert made == []
    dealt = list(watched.epoch(torch.Generator().manual_seed(0)))
    assert len(made) == 4
    assert len(watched) == len(source) == len(dealt) == sum(len(sampler) for sampler in made)


@DIRECTED
@REVERSE
@pytest.mark.parametrize("negatives", ["uniform", "tail"])
def test_hidden_links_are_no_negatives(directed: bool, reverse: bool, negatives: str) -> None:
    settings = {"negatives_per_positive": 5, "negatives": negatives}
    method = method_of(small_graph(directed), reverse=reverse, **settings)
    every = set(as_pairs(method.task.train_view.links))
    every = every if directed else either_way(every)
    drawn = 0
    for batch in epoch(method):
        pairs = batch.nodes[batch.negative].flip(0) if reverse else batch.nodes[batch.negative]
        assert not every.intersection(as_pairs(pairs))
        drawn += pairs.shape[1]
    assert drawn == 5 * len(every)


@pytest.mark.slow
@DIRECTED
@REVERSE
def test_evidence_is_that_of_all_links_but_the_one_asked_about(directed: bool, reverse: bool) -> None:
    """However many links a fold hides from the encoders: evidence leaves out one link at a time."""
    kinds = ("degrees", "common", "paths", "similarity")
    method = method_of(small_graph(directed), reverse=reverse, evidence=",".join(kinds))
    view, own = method.task.train_view, method.task.inputs.own
    assert own is not None
    evidence = PairEvidence(kinds, view, own)
    for batch in epoch(method):
        assert batch.evidence is not None
        positives = batch.nodes[batch.positive].flip(0) if reverse else batch.nodes[batch.positive]
        found = batch.evidence[: positives.shape[1]]
        assert torch.equal(found, evidence(*positives))
        for place in range(0, positives.shape[1], 9):
            pair = positives[:, place : place + 1]
            same = (view.links == pair).all(dim=0) | (not directed) & (view.links == pair.flip(0)).all(dim=0)
            assert int(same.sum()) == 1
            bare = PairEvidence(kinds, GraphView(view.num_nodes, directed, view.links[:, ~same]), own)
            torch.testing.assert_close(found[place : place + 1], bare(*pair), rtol=1e-4, atol=1e-4)


# ---- training ----


@pytest.mark.slow
@DIRECTED
def test_an_epoch_counts_every_link(directed: bool) -> None:
    graph = small_graph(directed)
    model = trained(graph, folds=3, epochs=2)
    links = model.task.train_view.links.shape[1] * (1 if directed else 2)
    assert [record["links"] for record in model.history] == [links] * 2
    again = trained(graph, folds=3, epochs=2)
    assert history(again) == history(model)
    assert same_weights(weights(again), weights(model))
    assert history(trained(graph, folds=1, epochs=2)) != history(model)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"method": "symmetric"}, {"method": "smlp"}, {"batches": "edges"}], ids=str)
def test_every_model_learns_in_folds(settings: dict[str, Any]) -> None:
    model = trained(replace(small_graph(), features=None), folds=3, epochs=6, learning_rate=0.02, **settings)
    assert model.history[-1]["loss"] < 0.98 * model.history[0]["loss"]


# ---- structure does not know what is hidden ----


def bare_graph(directed: bool) -> Graph:
    return replace(small_graph(directed), features=None)


STRUCTURE = {"structure": "auto", "featureless": 8, "evidence": "none"}


@DIRECTED
@REVERSE
def test_structure_is_read_off_the_links_that_are_not_hidden(directed: bool, reverse: bool) -> None:
    method = method_of(bare_graph(directed), reverse=reverse, **STRUCTURE)
    view, basis = method.task.train_view, method.task.inputs.structure
    assert isinstance(basis, SpectralBasis)
    every = set(as_pairs(view.links))
    for seen, fold in folds_of(epoch(method)):
        others = sorted(every.difference(learned(fold, reverse)))
        wanted = basis.columns(GraphView(view.num_nodes, directed, as_links(others)))
        torch.testing.assert_close(seen.features, wanted)
        assert seen.features.shape == (60, 8)
        ends = sorted({node for pair in every.intersection(learned(fold, reverse)) for node in pair})
        changed = (seen.features != method.task.features).any(dim=1)
        assert changed.nonzero().flatten().tolist() == ends


def with_links(task: LinkTask, links: Tensor) -> LinkTask:
    """Returns the task with other training links, and the basis that the true ones make."""
    view = GraphView(task.graph.num_nodes, task.graph.directed, links)
    return replace(task, train_view=view, feature_maker=lambda: task.inputs)


@DIRECTED
@pytest.mark.parametrize("number", range(3))
def test_nothing_seen_depends_on_which_links_are_hidden(directed: bool, number: int) -> None:
    """Others in the place of a fold's links change all that is seen but what is seen while they are learned."""
    method = method_of(bare_graph(directed), folds=3, **STRUCTURE)
    task, links = method.task, method.task.train_view.links
    found = folds_of(epoch(method))
    hidden = set(learned(found[number][1]))
    places = torch.tensor([pair in hidden for pair in as_pairs(links)]).nonzero().flatten()
    cells = {(a, b) for a in range(60) for b in range(60) if a < b} - either_way(set(as_pairs(links)))
    others = np.random.default_rng(0).permutation(sorted(cells))[: len(places)]
    changed = links.clone()
    changed[:, places] = torch.from_numpy(others.T)
    moved = GnnMethod.create(with_links(task, changed), method.config)
    for place, ((before, _), (after, fold)) in enumerate(zip(found, folds_of(epoch(moved)), strict=True)):
        same = torch.equal(before.features, after.features)
        assert same == (place == number)
        assert (messages(before) == messages(after)) == (place == number)
        if place == number:
            assert torch.equal(before.pre_encoded, after.pre_encoded)
            assert {tuple(pair) for pair in others.tolist()} <= set(learned(fold))


@DIRECTED
def test_a_hidden_link_looks_like_one_that_does_not_exist(directed: bool) -> None:
    method = method_of(bare_graph(directed), **STRUCTURE)
    task = method.task
    for seen, fold in folds_of(epoch(method)):
        hidden = set(learned(fold))
        shown = torch.tensor([pair not in hidden for pair in as_pairs(task.train_view.links)])
        without = with_links(task, task.train_view.links[:, shown])
        missing = GnnMethod.create(without, method.config).surroundings(without.train_view).graph
        assert torch.equal(seen.features, missing.features)
        assert torch.equal(seen.adjacency.col, missing.adjacency.col)
        assert torch.equal(seen.adjacency.row_ptr, missing.adjacency.row_ptr)


def telling(directed: bool, folds: int) -> float:
    """Returns how far from a coin's the features are at telling links from other pairs, 0 to ½, in training.

    Links are drawn evenly: only a link itself could tell that it is there. What two nodes have in common is looked at
    as a model could: in their features and in those of their surroundings, and half by half.
    """
    settings = {"featureless": 16, "negatives": "uniform", "negatives_per_positive": 1, "links_per_batch": 4000}
    graph = graph_of(random_links(2000, 20_000, directed), 2000, directed)
    method = method_of(graph, folds=folds, **(STRUCTURE | settings))
    values, positive = [], []
    for batch in epoch(method):
        assert batch.graph is not None
        x, around = batch.graph.features, batch.graph.pre_encoded
        half = x.shape[1] // 2
        for ends, link in ((batch.positive, True), (batch.negative, False)):
            row, col = batch.nodes[ends]
            products = [x[row] * x[col], around[row] * x[col], around[row] * around[col], x[row, :half] * x[col, half:]]
            values.append(torch.stack([product.sum(dim=1) for product in products], dim=1))
            positive.append(torch.full((len(row),), link))
    areas = [roc_auc_score(torch.cat(positive), column) for column in torch.cat(values).T]
    return max(abs(area - 0.5) for area in areas)


@pytest.mark.slow
@DIRECTED
def test_hidden_links_are_told_far_less(directed: bool) -> None:
    # Directions are found from all links, so a trace is left; nowhere more of it than in a graph without any reason.
    seen = telling(directed, folds=1)
    assert seen > 0.15
    assert telling(directed, folds=5) < 0.6 * seen
