"""The best validation epoch is kept, also when training is interrupted or its loss is no longer a number."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import headtail.evaluation.parts
from headtail import LinkPredictor
from headtail.config import make_config
from headtail.contract import Scorer
from headtail.errors import RunError, TrainingError
from headtail.files import read_tensors
from headtail.graph.graph import Graph
from headtail.graph.task import LinkTask, make_task
from headtail.training.checkpoint import CheckpointStore
from headtail.training.objectives import OBJECTIVES
from headtail.training.observer import Observer
from headtail.training.trainer import GnnMethod
from tiny_runs import Stop, history, predictor, same_weights, small_graph, timeless, trained, weights


def scripted(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> None:
    """Makes validation return these values, epoch after epoch; the test is evaluated as ever."""
    truth, left = headtail.evaluation.parts.evaluate_part, iter(values)

    def validate(scorer: Scorer, task: LinkTask, part: str) -> dict[str, float]:
        return {"mrr": next(left)} if part == "valid" else truth(scorer, task, part)

    monkeypatch.setattr(headtail.evaluation.parts, "evaluate_part", validate)


@pytest.mark.parametrize(
    ("values", "best"),
    [([0.1, 0.4, 0.3, 0.2], 2), ([0.1, 0.2, 0.3, 0.4], 4), ([0.0] * 4, 1)],
)
def test_the_best_validation_epoch_is_kept(values: list[float], best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = small_graph()
    seen: dict[int, dict[str, Tensor]] = {}

    class Copy(Observer):
        def epoch_done(self, record: object) -> None:
            seen[len(seen) + 1] = {name: tensor.clone() for name, tensor in method.model.state_dict().items()}

    config = predictor().config
    method = GnnMethod.create(make_task(graph, config), config)
    left = iter(values)
    progress = method.fit(lambda scorer: {"mrr": next(left)}, Copy())
    assert (progress.best_epoch, progress.best_value) == (best, values[best - 1])
    assert same_weights(method.model.state_dict(), seen[best])
    assert best == 4 or not same_weights(seen[best], seen[4])
    assert not method.model.training
    scripted(monkeypatch, values)
    model = predictor().fit(graph, observer=Observer())
    assert model.best_epoch == model.evaluate()["best_epoch"] == best
    assert same_weights(weights(model), seen[best])
    assert [record["valid_mrr"] for record in model.history] == values


def test_the_first_metric_decides() -> None:
    config = predictor(epochs=2).config
    method = GnnMethod.create(make_task(small_graph(), config), config)
    left = iter([{"hits@50": 0.2, "hits@20": 0.1}, {"hits@50": 0.1, "hits@20": 0.9}])
    assert method.fit(lambda scorer: next(left)).best_epoch == 1


def test_validation_comes_every_few_epochs_and_after_the_last() -> None:
    model = trained(epochs=5, evaluate_every=2)
    assert [record["epoch"] for record in model.history if "valid_mrr" in record] == [2, 4, 5]
    assert model.best_epoch in (2, 4, 5)


def test_the_first_epochs_of_a_resumed_run_may_hold_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = small_graph()
    scripted(monkeypatch, [0.1, 0.9, 0.3, 0.2])
    first = predictor().fit(graph, tmp_path / "run", observer=Stop(2))
    resumed = predictor().fit(graph, tmp_path / "run", resume=True, observer=Observer())
    assert first.best_epoch == resumed.best_epoch == 2
    assert same_weights(weights(first), weights(resumed))


def test_ctrl_c_keeps_the_best_so_far_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, run, heard = small_graph(), tmp_path / "run", Stop(3, 2)
    scripted(monkeypatch, [0.9, 0.2])
    model = predictor().fit(graph, run, observer=heard)
    assert heard.calls[-1] == "finished"
    assert not model.finished
    assert (model.best_epoch, len(model.history)) == (1, 2)
    card = (run / "README.md").read_text()
    assert "**Training was interrupted**" in card
    assert "2 of 4 epochs, best 1" in card
    reread = LinkPredictor.load(run, device="cpu")
    assert same_weights(weights(reread), weights(model))
    scripted(monkeypatch, [0.9])
    assert same_weights(weights(reread), weights(predictor().fit(graph, observer=Stop(1))))


def test_ctrl_c_before_the_first_epoch_ended_has_nothing_to_keep(tmp_path: Path) -> None:
    model = predictor()
    with pytest.raises(KeyboardInterrupt, match="before the first epoch ended"):
        model.fit(small_graph(), observer=Stop(1, 1))
    with pytest.raises(KeyboardInterrupt):
        model.fit(small_graph(), tmp_path / "run", observer=Stop(1, 1))
    with pytest.raises(RunError, match="no finished model yet"):
        LinkPredictor.load(tmp_path / "run")


def test_ctrl_c_before_the_first_validation_keeps_a_finished_epoch() -> None:
    graph = small_graph()
    amid = predictor(evaluate_every=3).fit(graph, observer=Stop(2, 2))
    after = predictor(evaluate_every=3).fit(graph, observer=Stop(1))
    assert same_weights(weights(amid), weights(after))


@pytest.fixture
def nan_in_third_epoch() -> Iterator[str]:
    """An objective that is not a number from the second batch of the third epoch on (four batches an epoch)."""
    name, calls = "breaks", 0
    good = OBJECTIVES["cross_entropy"]

    @OBJECTIVES.register(name)
    def breaks(positive: Tensor, negative: Tensor, negative_of: Tensor) -> Tensor:
        """Cross-entropy for nine batches, then not a number."""
        nonlocal calls
        calls += 1
        loss = good(positive, negative, negative_of)
        return loss * (math.nan if calls > 2 * 4 + 1 else 1.0)

    yield name
    del OBJECTIVES._entries[name]


def test_a_loss_that_is_no_number_stops_training(tmp_path: Path, nan_in_third_epoch: str) -> None:
    graph, run, heard = small_graph(), tmp_path / "run", Stop(0)
    with pytest.raises(TrainingError) as caught:
        predictor(objective=nan_in_third_epoch).fit(graph, run, observer=heard)
    message = str(caught.value)
    assert "epoch 3: the loss became nan in batch 2: " in message
    counts = re.search(r"(\d+) positives, (\d+) scores", message)
    assert counts is not None
    positives, scores = map(int, counts.groups())
    assert scores == 3 * positives
    assert 0 < positives < 255
    assert "of which 0 are not finite" in message
    assert "Lower learning_rate (now 0.01)" in message
    assert heard.calls[-1] == "finished"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    config = predictor(objective=nan_in_third_epoch).config
    method = GnnMethod.create(make_task(graph, config), config)
    store = CheckpointStore(run, *stamps(run))
    kept = store.load(method.model, torch.optim.Adam(method.model.parameters()))
    assert kept.epoch == 2
    assert [timeless(record) for record in kept.history] == history(trained(graph))[:2]


def stamps(run: Path) -> tuple[str, str]:
    """Returns which graph and settings a checkpoint says it belongs to."""
    facts = read_tensors(run / "checkpoint.safetensors")[1]
    return str(facts["fingerprint"]), str(facts["settings"])


def test_features_beyond_measure_are_told() -> None:
    graph: Graph = small_graph()
    assert graph.features is not None
    huge = replace(graph, features=graph.features * 1e30)
    with pytest.raises(
        TrainingError, match=r"epoch 1: the loss became nan in batch 1: .* scores of which [1-9]\d* are not finite"
    ):
        predictor().fit(huge, observer=Observer())


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    graph = small_graph()
    predictor().fit(graph, tmp_path, observer=Stop(1))
    config = make_config(settings={"hidden": 12, "layers": 2, "structure": 0})
    other = GnnMethod.create(make_task(graph, config), config)
    with pytest.raises(RunError, match="does not fit the model it should restore"):
        CheckpointStore(tmp_path, *stamps(tmp_path)).load(other.model, torch.optim.Adam(other.model.parameters()))
