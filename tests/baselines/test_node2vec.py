"""Node2vec: the contract, and skip-gram's loss worked out pair by pair."""

import math
from typing import Any, ClassVar

import pytest
import torch
from embedding_case import EmbeddingCase
from method_case import random_pairs, random_view
from tiny_methods import tiny_method
from torch import Tensor

from headtail.baselines import node2vec
from headtail.baselines.node2vec import Node2vec, WalkModel, rows_of
from headtail.config import ModelConfig
from headtail.graph.view import GraphView
from headtail.training.learner import Learner
from tiny_runs import trained


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


class TestNode2vec(EmbeddingCase):
    name = "node2vec"
    learn: ClassVar[dict[str, Any]] = {
        "epochs": 10,
        "hidden": 16,
        "links_per_batch": 256,
        "evaluate_every": 5,
        "walk_length": 10,
        "window": 3,
        "learning_rate": 0.03,
    }

    def value(self, method: Learner[Any], batch: Any, weight: str) -> Tensor:
        """The embeddings learn from the walks alone."""
        assert isinstance(method, Node2vec)
        return method.model.walk_loss(batch.walks, batch.strangers) if weight == "table" else method.loss(batch).value

    @pytest.mark.parametrize("settings", [{"return_weight": 4.0}, {"explore_weight": 0.25}, {"window": 1}])
    def test_every_setting_of_walks_counts(self, settings: dict[str, float]) -> None:
        plain, other = trained(method="node2vec", epochs=1), trained(method="node2vec", epochs=1, **settings)
        assert plain.history[0]["loss"] != other.history[0]["loss"]

    @pytest.mark.slow
    def test_batches_may_be_more_than_walks(self) -> None:
        record = trained(method="node2vec", epochs=1, links_per_batch=1, walks_per_node=1).history[0]
        assert record["links"] == 255  # 60 nodes start a walk each
        assert 0 < record["loss"] < 10


def made(directed: bool = True) -> Node2vec:
    method = tiny_method("node2vec", directed)
    assert isinstance(method, Node2vec)
    return method


@pytest.mark.parametrize("window", [1, 2, 9])
def test_the_loss_of_walks_is_skip_gram_with_negatives(window: int) -> None:
    torch.manual_seed(0)
    model = WalkModel(6, True, ModelConfig(hidden=4), window).double()
    torch.nn.init.normal_(model.table)
    walks = torch.tensor([[0, 1, 2, 1], [3, 4, 3, 4], [5, 5, 5, 5]])  # the last one cannot leave its node
    strangers = torch.tensor([[3, 4], [0, 0], [1, 2]])
    x = model.table.detach()
    alike, unlike, pairs = 0.0, 0.0, 0
    for walk, others in zip(walks.tolist(), strangers.tolist(), strict=True):
        for i, centre in enumerate(walk):
            for j, context in enumerate(walk):
                if i != j and abs(i - j) <= window and centre != context:
                    pairs += 1
                    alike += softplus(-float(x[centre] @ x[context]))
                    unlike += sum(softplus(float(x[centre] @ x[other])) for other in others) / len(others)
    assert model.walk_loss(walks, strangers).item() == pytest.approx((alike + unlike) / pairs)


def test_walks_that_stay_cost_nothing() -> None:
    model = WalkModel(3, True, ModelConfig(hidden=4), 2)
    loss = model.walk_loss(torch.zeros(2, 4, dtype=torch.long), torch.ones(2, 3, dtype=torch.long))
    loss.backward()
    assert loss.item() == 0
    assert model.table.grad is not None
    assert not model.table.grad.any()


def test_links_teach_the_scorer_and_not_the_embeddings() -> None:
    method = made()
    batch = next(iter(method.batches().epoch(torch.Generator().manual_seed(0))))
    method.model.zero_grad()
    positive, negative = method.model(batch.links)
    (negative.sum() - positive.sum()).backward()
    assert method.model.table.grad is None
    assert method.model.links.scorer.last.weight.grad is not None


def test_rows_and_their_gradient_equal_indexing(device: torch.device) -> None:
    table = torch.randn(7, 3, dtype=torch.float64, device=device, requires_grad=True)
    nodes = torch.tensor([[0, 6, 6, 1], [1, 6, 0, 0]], device=device)
    slope = torch.randn(2, 4, 3, dtype=torch.float64, device=device)
    found = torch.autograd.grad((rows_of(table, nodes) * slope).sum(), table)[0]
    wanted = torch.autograd.grad((table[nodes] * slope).sum(), table)[0]
    assert torch.equal(rows_of(table, nodes), table[nodes])
    torch.testing.assert_close(found, wanted)


def test_every_linked_node_starts_its_walks_in_every_epoch() -> None:
    method = made()
    batches = method.batches()
    drawn = [torch.cat([b.walks for b in batches.epoch(torch.Generator().manual_seed(seed))]) for seed in (0, 1)]
    neighbours = method.task.train_view.neighbours
    wanted = method.config.walks.walks_per_node * (neighbours.degrees > 0)
    for walks in drawn:
        assert torch.equal(torch.bincount(walks[:, 0], minlength=neighbours.num_rows), wanted)
        assert bool(neighbours.contains(walks[:, :-1].ravel(), walks[:, 1:].ravel()).all())
    assert not torch.equal(drawn[0], drawn[1])


def test_batches_are_no_larger_than_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = 2000
    monkeypatch.setattr(node2vec, "LOGITS_PER_BATCH", budget)
    batches = made().batches()
    drawn = list(batches.epoch(torch.Generator().manual_seed(0)))
    assert len(drawn) == len(batches) > 5
    for batch in drawn:
        walks, length = batch.walks.shape
        assert walks * length * (length + batch.strangers.shape[1]) <= budget
    links = sum(batch.links.positive.shape[1] for batch in drawn)
    assert links == made().task.train_view.links.shape[1]


def test_held_out_links_are_never_walked() -> None:
    method = made()
    held_out = torch.cat([method.task.split.valid.positives, method.task.split.test.positives], dim=1)
    walked = GraphView(method.task.graph.num_nodes, True, held_out).neighbours
    training = method.task.train_view.neighbours
    for batch in method.batches().epoch(torch.Generator().manual_seed(0)):
        steps = batch.walks[:, :-1].ravel(), batch.walks[:, 1:].ravel()
        assert not bool((walked.contains(*steps) & ~training.contains(*steps)).any())


def test_other_views_change_nothing_about_what_was_learned() -> None:
    method, view = made(), random_view(True)
    more = view.with_links(torch.tensor([[0], [29]]))
    assert torch.equal(
        method.scorer(view).score_pairs(*random_pairs()), method.scorer(more).score_pairs(*random_pairs())
    )
