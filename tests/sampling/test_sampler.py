"""Whole batches: pairs as places in distinct nodes, rows first, with the neighbourhood the model needs."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headtail.graph.evidence import PairEvidence
from headtail.graph.view import GraphView
from headtail.sampling import evidence as module
from headtail.sampling.batches import BATCHES
from headtail.sampling.evidence import BatchEvidence
from headtail.sampling.negatives import NegativeSpace
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.sampler import Batch, BatchSampler, GnnScope
from random_graphs import message_graph, random_view, star, views


def sampler(
    view: GraphView,
    kind: str = "rows",
    negatives: str = "uniform",
    count: int = 1,
    scope: GnnScope = "rows",
    reverse: bool = False,
    links_per_batch: int = 12,
    device: torch.device | str = "cpu",
    evidence: PairEvidence | None = None,
    keep: bool = False,
) -> BatchSampler:
    supervision = (view.in_rows if reverse else view.out_rows).to(device)
    return BatchSampler(
        graph=message_graph(view, device=device),
        batches=BATCHES[kind](supervision, links_per_batch),
        negatives=negatives,
        negatives_per_positive=count,
        negative_space=NegativeSpace(supervision, reverse),
        neighbours=NEIGHBOURS["bns"](Fanout(3, 2, 0.5)),
        gnn_scope=scope,
        layers=2,
        evidence=None if evidence is None else BatchEvidence(evidence, reverse, supervision if keep else None),
    )


def epoch(sampler: BatchSampler, seed: int = 0) -> list[Batch]:
    return list(sampler.epoch(torch.Generator(device=sampler.graph.device).manual_seed(seed)))


def named(batch: Batch, places: torch.Tensor) -> list[tuple[int, int]]:
    row, col = batch.nodes[places]
    return list(zip(row.tolist(), col.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["rows", "edges"])
@pytest.mark.parametrize("negatives", ["uniform", "tail"])
@pytest.mark.parametrize("reverse", [False, True])
@given(views(), st.integers(1, 3), st.integers(1, 15))
def test_an_epoch_of_any_graph(
    kind: str, negatives: str, reverse: bool, view: GraphView, count: int, links_per_batch: int
) -> None:
    source = sampler(view, kind, negatives, count, reverse=reverse, links_per_batch=links_per_batch)
    known = source.batches.supervision
    links = list(zip(known.row.tolist(), known.col.tolist(), strict=True))
    seen: list[tuple[int, int]] = []
    for batch in epoch(source):
        nodes = batch.nodes.tolist()
        assert len(set(nodes)) == len(nodes)
        positive, negative = named(batch, batch.positive), named(batch, batch.negative)
        seen += positive
        assert not set(negative) & set(links)
        # Rows come first, and nothing is in the batch that no pair needs.
        assert set(nodes[: batch.num_rows]) == {row for row, _ in positive + negative}
        assert set(nodes) == {node for pair in positive + negative for node in pair}
        assert all(n <= count for n in Counter(batch.negative_of.tolist()).values())
        if negatives == "tail":
            end = 1 if reverse else 0
            heads = [positive[place][end] for place in batch.negative_of.tolist()]
            assert heads == [pair[end] for pair in negative]
    assert sorted(seen) == sorted(links)


@pytest.mark.parametrize("scope", ["rows", "all", "none"])
def test_the_neighbourhood_is_that_of_the_nodes_the_gnn_encodes(scope: GnnScope) -> None:
    for batch in epoch(sampler(random_view(), scope=scope)):
        if scope == "none":
            assert batch.neighbourhood is None
            continue
        targets = batch.nodes[: batch.num_rows] if scope == "rows" else batch.nodes
        assert batch.neighbourhood is not None
        assert len(batch.neighbourhood.blocks) == 2
        assert batch.neighbourhood.blocks[-1].num_targets == targets.numel()
        assert torch.equal(batch.neighbourhood.nodes[: targets.numel()], targets)


@pytest.mark.parametrize(("reverse", "negatives"), [(False, "tail"), (False, "uniform"), (True, "tail")])
def test_row_wise_negatives_cost_no_extra_gnn_row(reverse: bool, negatives: str) -> None:
    view = random_view(60, 150)
    rows = sum(batch.num_rows for batch in epoch(sampler(view, "rows", negatives, 4, reverse=reverse)))
    assert rows <= view.num_nodes  # every node is encoded once per epoch at most


def test_batches_without_links_are_left_out() -> None:
    batches = epoch(sampler(star(30), links_per_batch=5))
    assert [batch.positive.shape[1] for batch in batches] == [30]


def test_the_seed_decides_everything() -> None:
    source = sampler(random_view(), negatives="tail", count=2)

    def facts(seed: int) -> list[list[int]]:
        return [
            [*batch.nodes.tolist(), *batch.negative.flatten().tolist(), *batch.neighbourhood.nodes.tolist()]  # type: ignore[union-attr]
            for batch in epoch(source, seed)
        ]

    assert facts(1) == facts(1)
    assert facts(1) != facts(2)


def test_batches_on_every_device(device: torch.device) -> None:
    view = random_view(40, 120)
    source = sampler(view, negatives="tail", count=2, scope="all", device=device)
    links = 0
    for batch in epoch(source):
        links += batch.positive.shape[1]
        assert batch.nodes.device.type == batch.neighbourhood.nodes.device.type == device.type  # type: ignore[union-attr]
    assert links == 120


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ["rows", "edges"])
@pytest.mark.parametrize(("negatives", "keep"), [("uniform", True), ("tail", True), ("popular", False), ("near", True)])
def test_evidence_is_of_positives_then_negatives_from_head_to_tail(
    directed: bool, reverse: bool, kind: str, negatives: str, keep: bool
) -> None:
    view = random_view(directed=directed)
    evidence = PairEvidence(["degrees", "similarity", "paths"], view, message_graph(view, 4).features)
    for batch in epoch(sampler(view, kind, negatives, 2, reverse=reverse, evidence=evidence, keep=keep)):
        rows, columns = batch.nodes[torch.cat([batch.positive, batch.negative], dim=1)]
        heads, tails = (columns, rows) if reverse else (rows, columns)
        links = batch.positive.shape[1]
        hidden = tails.clone()
        for place, of in enumerate(batch.negative_of.tolist(), links):
            if heads[place] == heads[of]:  # a negative that keeps the head does not see the link of its positive
                hidden[place] = tails[of]
        assert batch.evidence is not None
        assert torch.equal(batch.evidence, evidence(heads, tails, hidden=hidden))
        assert negatives == "uniform" or not torch.equal(batch.evidence, evidence(heads, tails)) or reverse
        assert not torch.equal(batch.evidence, evidence(tails, heads))


def test_a_batch_knows_the_graph_it_was_drawn_from() -> None:
    source = sampler(random_view())
    for batch in epoch(source):
        assert batch.graph is source.graph
        assert batch.evidence is None


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("keep", "most", "lookups"), [(True, 10**6, 1), (True, 10, 2), (False, 10**6, 2)])
def test_kept_evidence_of_positives_is_looked_up_once(
    keep: bool, most: int, lookups: int, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", most)
    view = random_view()
    evidence = PairEvidence(["degrees", "paths"], view, message_graph(view, 4).features)
    source = sampler(view, "edges", "tail", reverse=reverse, links_per_batch=10**6, evidence=evidence, keep=keep)
    asked: list[int] = []
    look_up = PairEvidence.__call__
    monkeypatch.setattr(
        PairEvidence, "__call__", lambda *args, **more: asked.append(len(args[1])) or look_up(*args, **more)
    )
    links = view.links.shape[1]
    (first,), (second,) = epoch(source, 0), epoch(source, 1)
    assert asked.count(links) == lookups + 2  # there are as many negatives, and those are always looked up
    for batch in (first, second):
        ends = batch.nodes[batch.positive]
        assert batch.evidence is not None
        assert torch.equal(batch.evidence[:links], look_up(evidence, *(ends.flip(0) if reverse else ends)))
