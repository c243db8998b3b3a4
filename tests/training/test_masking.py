"""Masked epochs: what is learned from is hidden from the encoders, drawn anew in every epoch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from headtail.config import make_config
from headtail.graph.graph import Graph
from headtail.graph.message import MessageGraph
from headtail.graph.task import make_task
from headtail.graph.view import GraphView
from headtail.sampling.sampler import Batch, BatchSampler
from headtail.training.masking import MaskedBatches
from headtail.training.observer import Observer
from headtail.training.trainer import GnnMethod
from random_graphs import as_pairs, graph_of, random_links
from tiny_runs import SMALL, history, same_weights, small_graph, trained, weights

Links = set[tuple[int, int]]


def method_of(graph: Graph, **settings: Any) -> GnnMethod:
    config = make_config(settings=SMALL | {"masked": 0.3} | settings)
    return GnnMethod.create(make_task(graph, config), config)


def epoch(method: GnnMethod, seed: int = 0) -> list[Batch]:
    return list(method.batches().epoch(torch.Generator().manual_seed(seed)))


def either_way(pairs: Links) -> Links:
    return pairs | {(tail, head) for head, tail in pairs}


def learned(batches: list[Batch], reverse: bool = False) -> list[tuple[int, int]]:
    """Returns the positives of an epoch, head → tail."""
    return [
        (col, row) if reverse else (row, col)
        for batch in batches
        for row, col in batch.nodes[batch.positive].T.tolist()
    ]


def messages(graph: MessageGraph) -> Links:
    """Returns the links that encoders see, without self-loops."""
    rows = graph.adjacency
    return {(a, b) for a, b in zip(rows.row.tolist(), rows.col.tolist(), strict=True) if a != b}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("share", [0.001, 0.3, 0.9])
def test_hidden_links_are_learned_from_and_not_seen(directed: bool, reverse: bool, share: float) -> None:
    method = method_of(small_graph(directed), masked=share, reverse=reverse)
    every: Links = set(as_pairs(method.task.train_view.links))
    batches = epoch(method)
    (graph,) = {id(batch.graph): batch.graph for batch in batches}.values()
    assert graph is not None
    positives = learned(batches, reverse)
    assert len(set(positives)) == len(positives)
    hidden = every.intersection(positives)
    assert set(positives) == (hidden if directed else either_way(hidden))
    assert len(hidden) == max(1, round(share * len(every)))
    # A link of a directed graph may be seen still where its reverse is a link too, and is not hidden.
    assert messages(graph) == either_way(every - hidden)


def test_every_epoch_hides_others_and_a_seed_the_same() -> None:
    method = method_of(small_graph(), masked=0.5)
    source = method.batches()
    first, again, other = (
        sorted(learned(list(source.epoch(torch.Generator().manual_seed(seed))))) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    counts = torch.zeros(method.task.graph.num_nodes, method.task.graph.num_nodes)
    for seed in range(12):
        for head, tail in learned(list(source.epoch(torch.Generator().manual_seed(seed)))):
            counts[head, tail] += 1
    heads, tails = method.task.train_view.links
    assert float(counts[heads, tails].min()) > 0  # every link is learned from in some epoch


def test_evidence_stays_that_of_all_training_links() -> None:
    method = method_of(small_graph())
    evidence = method.surroundings(method.task.train_view).evidence
    assert evidence is not None
    for batch in epoch(method):
        links = batch.positive.shape[1]
        assert batch.evidence is not None
        assert torch.equal(batch.evidence[:links], evidence(*batch.nodes[batch.positive]))


def test_hidden_links_are_no_negatives() -> None:
    method = method_of(small_graph(), negatives_per_positive=5)
    every = set(as_pairs(method.task.train_view.links))
    for batch in epoch(method):
        assert not every.intersection(map(tuple, batch.nodes[batch.negative].T.tolist()))


@pytest.mark.parametrize("batches", ["rows", "edges"])
def test_length_is_known_before_and_costs_one_sampler(batches: str) -> None:
    method = method_of(small_graph(), batches=batches)
    source = method.batches()
    assert isinstance(source, MaskedBatches)
    made: list[BatchSampler] = []

    def counted(links: Tensor, view: GraphView) -> BatchSampler:
        made.append(source.sampler(links, view))
        return made[-1]

    watched = MaskedBatches(source.view, source.share, counted)
    lengths = {len(watched) for _ in range(5)}
    assert len(made) == 1
    list(watched.epoch(torch.Generator().manual_seed(0)))
    assert len(made) == 2
    assert lengths == {len(made[1])}


def test_without_a_share_nothing_is_hidden() -> None:
    method = method_of(small_graph(), masked=0.0)
    batches = epoch(method)
    every = set(as_pairs(method.task.train_view.links))
    assert set(learned(batches)) == every
    graph = batches[0].graph
    assert graph is not None
    assert messages(graph) == either_way(every)


def test_newest_links_need_no_hiding() -> None:
    graph = graph_of(random_links(20, 150, True), 20, times=torch.arange(150) // 3)
    method = method_of(graph, supervision="newest", structure="auto", featureless=4)
    supervision = method.supervision
    batches = epoch(method)
    assert set(learned(batches)) == set(as_pairs(supervision.links))
    assert batches[0].graph is method.surroundings(supervision.view).graph
    assert not set(as_pairs(supervision.links)) & set(as_pairs(supervision.view.links))
    assert method.notes == (supervision.note,)


def test_masked_training_counts_what_it_learns_from() -> None:
    graph = small_graph()
    model = trained(graph, masked=0.25, epochs=2)
    links = model.task.train_view.links.shape[1]
    assert [record["links"] for record in model.history] == [round(0.25 * links)] * 2
    again = trained(graph, masked=0.25, epochs=2)
    assert history(again) == history(model)
    assert same_weights(weights(again), weights(model))


def test_a_graph_of_one_training_link_can_be_masked() -> None:
    graph = graph_of([(0, 1)], 6, valid=[(2, 3)], test=[(4, 5)])
    config = make_config(settings=SMALL | {"masked": 0.5, "structure": "auto", "featureless": 2, "eval_negatives": 2})
    method = GnnMethod.create(make_task(graph, config), config)
    assert method.fit(None, Observer()).epoch == SMALL["epochs"]
