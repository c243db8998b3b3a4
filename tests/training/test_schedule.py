"""What the loop decides before a batch is drawn: learning rates, seeds, objectives, devices."""

import math

import pytest
import torch

from headtail.config import make_config
from headtail.errors import ConfigError
from headtail.training.learner import resolve_auto, resolve_device
from headtail.training.schedule import cosine, epoch_seed
from tiny_runs import small_graph, trained


def test_the_learning_rate_falls_along_half_a_cosine() -> None:
    rates = [cosine(0.01, epoch, 8) for epoch in range(1, 9)]
    assert rates[0] == 0.01
    assert rates[4] == pytest.approx(0.005)  # half of the way
    assert rates[2] == pytest.approx(0.01 * (1 + math.cos(math.pi / 4)) / 2)
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 0.001
    assert cosine(0.01, 9, 8) == pytest.approx(0)  # where the next epoch would be
    assert cosine(0.3, 1, 1) == 0.3


def test_epochs_are_trained_with_the_rates_of_the_schedule() -> None:
    model = trained(epochs=3, learning_rate=0.02)
    assert [r["learning_rate"] for r in model.history] == pytest.approx([0.02, 0.015, 0.005])


def test_every_epoch_of_every_run_has_a_seed_of_its_own() -> None:
    seeds = {epoch_seed(seed, epoch) for seed in range(50) for epoch in range(1, 1001)}
    assert len(seeds) == 50 * 1000
    assert epoch_seed(3, 7) == epoch_seed(3, 7)


@pytest.mark.parametrize(
    ("metric", "negatives", "objective"),
    [
        ("mrr", "tail", "cross_entropy"),
        ("hits@50", "uniform", "squared_hinge"),
        ("hits@10", "uniform", "squared_hinge"),
    ],
)
def test_objective_and_negatives_follow_the_metric(metric: str, negatives: str, objective: str) -> None:
    resolved = resolve_auto(make_config("paper"), metric)
    assert resolved.sampling.negatives == negatives
    assert resolved.training.objective == objective


@pytest.mark.parametrize("metric", ["mrr", "hits@50"])
def test_auto_changes_nothing_that_was_chosen(metric: str) -> None:
    config = make_config("paper", settings={"negatives": "uniform", "objective": "cross_entropy", "seed": 5})
    assert resolve_auto(config, metric) == config
    half = resolve_auto(make_config("paper", settings={"negatives": "uniform"}), "mrr")
    assert (half.sampling.negatives, half.training.objective) == ("uniform", "cross_entropy")


def test_the_metric_of_a_run_chooses_how_it_is_trained() -> None:
    model = trained(small_graph(), epochs=1, metric="hits@20", eval_negatives=1)
    assert model.method.config.training.objective == "squared_hinge"
    assert next(iter(model.evaluate())) == "split"
    assert model.evaluate()["metric"] == "hits@20"
    assert "valid_hits@20" in model.history[0]


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError, match="PyTorch sees no GPU here; use --device cpu or auto"):
        resolve_device("cuda")
    with pytest.raises(ConfigError, match="sees no GPU"):
        resolve_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")


@pytest.mark.parametrize("name", ["gpu", "", "cpu:x", "CPU"])
def test_a_device_that_is_none_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown device '{name}'; use cpu, cuda or auto"):
        resolve_device(name)


@pytest.mark.parametrize("name", ["mps", "meta", "xpu"])
def test_a_device_that_training_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="use cpu, cuda or auto"):
        resolve_device(name)


def test_any_seed_that_the_settings_allow_can_be_trained_with() -> None:
    assert trained(epochs=1, seed=10**14).finished
