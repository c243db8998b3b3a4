"""Every method and every switch trains an epoch, changes what it should, and scores with finite numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from headtail import LinkPredictor
from random_graphs import graph_of
from tiny_runs import small_graph, trained, weights

COMBINATIONS: list[dict[str, Any]] = [
    {"method": "aml", "encoder": "gat"},
    {"method": "aml", "encoder": "pyg:GATv2Conv", "batches": "edges"},
    {"method": "aml", "batches": "edges"},
    {"method": "symmetric", "encoder": "sage"},
    {"method": "symmetric", "encoder": "pyg:GATv2Conv"},
    {"method": "symmetric", "encoder": "gat", "batches": "edges"},
    {"method": "smlp", "encoder": "sage"},
    {"method": "smlp", "encoder": "gat", "batches": "edges"},
    {"method": "aml", "reverse": True},
    {"method": "aml", "reverse": True, "batches": "edges", "negatives": "tail"},
    {"knowledge_transfer": False},
    {"residual": False},
    {"homophily": False},
    {"pre_encoding": False},
    {"knowledge_transfer": False, "residual": False, "homophily": False, "pre_encoding": False},
    {"normalisation": "column"},
    {"normalisation": "symmetric"},
    {"normalisation": "symmetric", "encoder": "gat", "neighbours": "full"},
    {"neighbours": "full"},
    {"neighbours": "uniform", "fanout_output": 3, "fanout_inner": "all"},
    {"neighbours": "bns", "blocked": 0.8, "fanout_inner": 1},
    {"negatives": "uniform", "negatives_per_positive": 3},
    {"negatives": "tail", "negatives_per_positive": 3},
    {"objective": "squared_hinge"},
    {"objective": "cross_entropy", "metric": "hits@10", "eval_negatives": 1},
    {"weight_decay": 0.1},
    {"dropout": 0.4, "norm_statistics": "running", "layers": 1},
    {"structure": 4, "scorer_layers": 1},
]


def all_scores(model: LinkPredictor) -> Tensor:
    return model._scorer("training").score_rows(torch.arange(60), 0, 60)


@pytest.fixture(scope="module")
def plain() -> LinkPredictor:
    return trained(epochs=1)


def described(settings: dict[str, Any]) -> str:
    return "-".join(f"{name}={value}" for name, value in settings.items())


@pytest.mark.parametrize("settings", COMBINATIONS, ids=described)
def test_trains_an_epoch_and_scores_every_pair(settings: dict[str, Any], plain: LinkPredictor) -> None:
    model = trained(epochs=1, **settings)
    record = model.history[0]
    assert record["links"] == 255
    per_positive = settings.get("negatives_per_positive", 2)
    assert record["pairs_scored"] == 255 * (1 + per_positive)
    assert 0 < record["loss"] < 10
    scores = all_scores(model)
    assert torch.isfinite(scores).all()
    assert scores.std() > 0
    # A switch that changes nothing is not connected.
    assert not torch.equal(scores, all_scores(plain))
    assert 0 < model.evaluate()[model.task.metric] <= 1


def test_undirected_scores_are_the_same_both_ways() -> None:
    scores = all_scores(trained(small_graph(directed=False), epochs=1))
    torch.testing.assert_close(scores, scores.T)


@pytest.mark.parametrize("method", ["aml", "symmetric", "smlp"])
def test_only_aml_tells_heads_from_tails(method: str) -> None:
    scores = all_scores(trained(epochs=1, method=method))
    assert torch.allclose(scores, scores.T, atol=1e-5) == (method != "aml")


def test_weight_decay_makes_weights_smaller() -> None:
    graph = small_graph()

    def size(weight_decay: float) -> float:
        matrices = [w for w in weights(trained(graph, weight_decay=weight_decay)).values() if w.dim() == 2]
        return float(sum(w.square().sum() for w in matrices))

    assert size(1.0) < 0.9 * size(0.0)


def test_knowledge_transfer_saves_weights() -> None:
    def count(**settings: Any) -> int:
        return sum(w.numel() for w in weights(trained(epochs=1, **settings)).values())

    assert count() < count(knowledge_transfer=False)
    assert count(residual=False) < count()


def test_a_head_linked_to_every_node_has_no_negatives_and_does_no_harm() -> None:
    full = [(0, tail) for tail in range(1, 8)] + [(1, 2)]
    model = trained(graph_of(full, 8, valid=[(2, 3)], test=[(3, 4)]), epochs=1, structure=4, eval_negatives=3)
    assert model.history[0]["pairs_scored"] == 8 + 2  # only the link 1 → 2 has tails left to compare with
    assert torch.isfinite(model._scorer("training").score_rows(torch.arange(8), 0, 8)).all()
