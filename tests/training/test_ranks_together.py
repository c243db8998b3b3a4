"""Several ranks train as one process would: the same batches, the same loss, the same gradients, the same weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headtail.errors import ConfigError, RanksError
from headtail.graph.task import make_task
from headtail.graph.view import GraphView
from headtail.methods import make_method
from headtail.nn.models import MODELS, LinkModel, ModelShape
from headtail.ranks import ALONE, Ranks
from headtail.sampling.batches import BATCHES, LinkBatches, Positives
from headtail.sampling.negatives import Negatives, NegativeSpace
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.numbering import Numbering
from headtail.sampling.sampler import Batch, BatchSampler, number_pairs
from headtail.training.checkpoint import CheckpointStore, Progress
from headtail.training.distributed import SharedStep, shared_nodes, spread_norms
from headtail.training.learner import Learner
from headtail.training.objectives import OBJECTIVES, shares_across
from headtail.training.observer import Observer
from headtail.training.steps import Loss, Step
from random_graphs import message_graph, random_view
from threads_as_ranks import on_ranks
from tiny_runs import predictor, same_weights, small_graph, timeless, trained

NODES = 24


def pairs_of(view: GraphView, first: int, last: int) -> tuple[Positives, Negatives]:
    """Returns the links of some heads, and two made-up negatives of each."""
    row, col = view.links[:, (view.links[0] >= first) & (view.links[0] < last)]
    of = torch.arange(row.numel()).repeat(2)
    # Made of the link alone, so that it does not matter who makes it.
    return Positives(row, col, None), Negatives(row[of], (7 * row[of] + 3 * col[of] + of // row.numel()) % NODES, of)


def joined(parts: list[tuple[Positives, Negatives]]) -> tuple[Positives, Negatives]:
    before = [0, parts[0][0].row.numel()]
    positives = Positives(*(torch.cat([getattr(p, end) for p, _ in parts]) for end in ("row", "col")), None)
    of = torch.cat([n.positive + first for (_, n), first in zip(parts, before, strict=True)])
    return positives, Negatives(*(torch.cat([getattr(n, end) for _, n in parts]) for end in ("row", "col")), of)


def none() -> tuple[Positives, Negatives]:
    empty = torch.empty(0, dtype=torch.long)
    return Positives(empty, empty, None), Negatives(empty, empty, empty)


@pytest.mark.parametrize(
    ("method", "encoder", "objective"),
    [
        ("aml", "sage", "squared_hinge"),
        ("aml", "gat", "cross_entropy"),
        ("symmetric", "sage", "focused"),
        ("smlp", "sage", "focused"),
    ],
)
def test_loss_and_gradients_are_those_of_one_process(method: str, encoder: str, objective: str) -> None:
    view = random_view(NODES, 60)
    # Ranks have different heads, but see the same tails and neighbours.
    graph, parts = message_graph(view), [pairs_of(view, 0, 5), pairs_of(view, 5, NODES)]
    torch.manual_seed(0)
    model: LinkModel = MODELS[method](ModelShape(in_dim=5, dim=6, layers=2, encoder=encoder, norm_momentum=0.5))
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    models = [MODELS[method](model.shape) for _ in range(3)]

    def batch_of(pairs_: tuple[Positives, Negatives]) -> Batch:
        numbering, generator = Numbering(view.num_nodes, graph.device), torch.Generator()
        batch = number_pairs(*pairs_, numbering)
        targets = batch.nodes[: batch.num_rows] if model.gnn_scope == "rows" else batch.nodes
        found = NEIGHBOURS["full"](Fanout()).sample(graph, targets, 2, numbering, generator)
        return replace(batch, neighbourhood=found)

    def learn(model: LinkModel, ranks: Ranks, pairs_: tuple[Positives, Negatives]) -> tuple[Tensor, dict[str, Tensor]]:
        model.load_state_dict(start)
        model.train()
        spread_norms(model, ranks)

        def loss(batch: Batch) -> Loss:
            positive, negative = model(graph, shared_nodes(batch, ranks, NODES))
            shares = shares_across(ranks, positive, negative)
            value = OBJECTIVES[objective](positive, negative, batch.negative_of, shares)
            return Loss(value, positive.numel(), positive)

        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)  # a step is minus the gradient
        step: Step[Batch] = SharedStep(loss, optimizer, ranks) if ranks.several else Step(loss, optimizer)
        return step(batch_of(pairs_)).value, dict(model.state_dict())

    value, wanted = learn(model, ALONE, joined(parts))
    shares = [parts[0], none(), parts[1]]
    found = on_ranks(3, lambda ranks: learn(models[ranks.rank], ranks, shares[ranks.rank]))
    for loss, state in found:
        torch.testing.assert_close(loss, value)
        assert same_weights(state, found[0][1])  # the same on all ranks, bit for bit
        for name, tensor in state.items():
            torch.testing.assert_close(tensor, wanted[name], msg=lambda text, name=name: f"{name}: {text}")
    assert not torch.equal(wanted["scorer.last.weight"], start["scorer.last.weight"])


def sampler(ranks: Ranks, kind: str, negatives: str, neighbours: str, links_per_batch: int) -> BatchSampler:
    view = random_view(30, 70)
    rows = view.out_rows
    batches: LinkBatches = BATCHES[kind](rows, links_per_batch)
    space, chosen = NegativeSpace(rows), NEIGHBOURS[neighbours](Fanout(3, 2))
    return BatchSampler(message_graph(view), batches, negatives, 2, space, chosen, "rows", 2, ranks=ranks)


@pytest.mark.slow
@pytest.mark.parametrize("negatives", ["uniform", "tail", "popular", "near"])
@pytest.mark.parametrize(("kind", "neighbours"), [("rows", "bns"), ("rows", "full"), ("edges", "uniform")])
@pytest.mark.parametrize("links_per_batch", [3, 25, 1000])
def test_ranks_deal_the_batches_of_one_process(
    kind: str, negatives: str, neighbours: str, links_per_batch: int
) -> None:
    def links(ranks: Ranks) -> list[set[tuple[int, int]]]:
        made = sampler(ranks, kind, negatives, neighbours, links_per_batch).epoch(torch.Generator().manual_seed(3))
        return [{tuple(pair) for pair in b.nodes[b.positive].T.tolist()} for b in made]

    alone, shares = links(ALONE), on_ranks(4, links)
    assert {len(of_rank) for of_rank in shares} == {len(alone)}
    for whole, *parts in zip(alone, *shares, strict=True):
        assert set().union(*parts) == whole
        assert sum(map(len, parts)) == len(whole)
    if links_per_batch == 3:
        assert any(not part for of_rank in shares for part in of_rank)


def test_ranks_draw_negatives_of_their_own() -> None:
    view = random_view(30, 70)

    def columns(ranks: Ranks) -> list[int]:
        made = sampler(ranks, "rows", "tail", "full", 1000)
        # The same rows for all: what differs is chance.
        batch = replace(made, ranks=_Whole(ranks)).epoch(torch.Generator().manual_seed(3))
        return [int(node) for b in batch for node in b.nodes[b.negative[1]]]

    one, other = on_ranks(2, columns)
    assert one != other
    assert len(one) == 2 * view.links.shape[1]


class _Whole(Ranks):
    """A rank whose share is everything."""

    def __init__(self, ranks: Ranks) -> None:
        self.rank, self.size = ranks.rank, ranks.size

    def share(self, items: Tensor, dim: int = 0) -> Tensor:
        return items


SETTINGS: list[dict[str, Any]] = [
    {},
    {"links_per_batch": 8, "epochs": 1},  # a rank has often nothing to do
    {"folds": 3, "averaging": 0.9, "objective": "focused", "epochs": 2},
    {"evidence": "degrees,common", "method": "symmetric", "batches": "edges", "encoder": "gat", "epochs": 2},
    {"metric": "hits@20", "eval_negatives": 1, "reverse": True, "norm_statistics": "running", "epochs": 2},
]


def learners(size: int, **settings: Any) -> list[Learner[Batch]]:
    config = predictor(**settings).config
    made = [make_method(make_task(small_graph(), config), config) for _ in range(size)]
    return [method for method in made if isinstance(method, Learner)]


def fit(methods: list[Learner[Batch]], folder: Path | None = None, resume: bool = False) -> list[Progress]:
    """Trains by as many ranks as there are methods."""

    def work(ranks: Ranks) -> Progress:
        method = methods[ranks.rank]
        method.ranks = ranks
        store = None if folder is None else CheckpointStore(folder, "graph", "settings")
        # Something to maximise that needs no evaluator: those of several ranks are tested by themselves.
        return method.fit(
            lambda scorer: {"mrr": float(scorer.score_rows(torch.arange(3), 0, 9).mean())}, None, store, resume
        )

    return on_ranks(len(methods), work)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS)
def test_all_ranks_end_with_the_same_model(settings: dict[str, Any]) -> None:
    methods = learners(3, **settings)
    first, *others = fit(methods)
    alone = trained(**settings)
    for method, progress in zip(methods[1:], others, strict=True):
        assert same_weights(method.weights(), methods[0].weights())
        assert [timeless(record) for record in progress.history] == [timeless(record) for record in first.history]
    for record, wanted in zip(first.history, alone.history, strict=True):
        assert (record["links"], record["pairs_scored"]) == (wanted["links"], wanted["pairs_scored"])
        assert record["learning_rate"] == wanted["learning_rate"]
    # Other negatives and neighbours: alike, not equal.
    assert first.history[-1]["loss"] == pytest.approx(alone.history[-1]["loss"], rel=0.35)


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_ranks(tmp_path: Path) -> None:
    def stopped(methods: list[Learner[Batch]], after: int) -> None:
        class Stop(Observer):
            def epoch_done(self, record: Any) -> None:
                if record["epoch"] == after:
                    raise StopIteration

        def work(ranks: Ranks) -> None:
            method = methods[ranks.rank]
            method.ranks = ranks
            with pytest.raises(StopIteration):
                method.fit(None, Stop(), CheckpointStore(tmp_path, "graph", "settings"))

        on_ranks(len(methods), work)

    stopped(learners(2), after=2)
    three = learners(3)
    found = fit(three, tmp_path, resume=True)
    assert [progress.epoch for progress in found] == [4, 4, 4]
    assert all(same_weights(method.weights(), three[0].weights()) for method in three)
    # And with one, which goes on from the last epoch of the three.
    (one,) = learners(1)
    progress = one.fit(None, None, CheckpointStore(tmp_path, "graph", "settings"), resume=True)
    assert [timeless(r) for r in progress.history] == [timeless(r) for r in found[0].history]


def test_a_loss_that_is_no_number_stops_all_ranks() -> None:
    methods = learners(2)
    with torch.no_grad():
        methods[1].model.get_parameter("scorer.last.bias").fill_(torch.nan)
    with pytest.raises(Exception, match="epoch 1: the loss became nan in batch 1"):
        fit(methods)


def test_methods_that_do_not_spread_are_refused() -> None:
    with pytest.raises(ConfigError, match="method 'mf' trains in one process; start it without torchrun"):
        fit(learners(2, method="mf"))


def test_ranks_that_see_different_things_are_told() -> None:
    with pytest.raises(RanksError, match="rank 1 of 3: the graph is not that of rank 0"):
        on_ranks(3, lambda ranks: ranks.agree("the graph", "b" if ranks.rank == 1 else "a"))
    on_ranks(3, lambda ranks: ranks.agree("the graph", "a"))
    ALONE.agree("the graph", "a")


def test_one_rank_is_what_it_was() -> None:
    """A process by itself exchanges nothing, and changes nothing that it is given."""
    items = torch.arange(5)
    assert ALONE.share(items) is items
    assert ALONE.sum(items) is items
    assert ALONE.whole(items, 5) is items
    assert (ALONE.rank, ALONE.size, ALONE.leads, ALONE.several) == (0, 1, True, False)


def test_shares_join_in_order() -> None:
    for total in (0, 1, 5, 9):
        items = torch.arange(total).repeat(2, 1).T + 1
        for found in on_ranks(3, lambda ranks, items=items: ranks.whole(ranks.share(items), len(items))):
            assert torch.equal(found, items)
