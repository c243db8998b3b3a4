"""One seed fixes everything; an interrupted and resumed run equals one that was not."""

from pathlib import Path
from typing import Any

import pytest
import torch

from headtail import LinkPredictor
from headtail.errors import HeadtailError, RunError
from headtail.training.observer import Observer
from tiny_runs import Stop, history, predictor, same_weights, small_graph, timeless, trained, weights


def test_the_same_seed_gives_the_same_run() -> None:
    torch.manual_seed(1)
    one = trained(dropout=0.2)
    torch.manual_seed(2)  # what the caller does with PyTorch's own generator is without effect
    other = trained(dropout=0.2)
    assert history(one) == history(other)
    assert same_weights(weights(one), weights(other))
    assert timeless(one.evaluate()) == timeless(other.evaluate())


def test_another_seed_gives_another_run() -> None:
    graph = small_graph()
    one, other = trained(graph, seed=0), trained(graph, seed=1)
    assert not same_weights(weights(one), weights(other))
    assert [r["loss"] for r in one.history] != [r["loss"] for r in other.history]
    assert not torch.equal(one.task.split.test.positives, other.task.split.test.positives)


def test_training_leaves_the_callers_random_numbers_alone() -> None:
    model = predictor(epochs=1, dropout=0.2)
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    model.fit(small_graph(), observer=Observer()).evaluate()
    assert torch.equal(torch.rand(3), wanted)


def test_a_new_predictor_leaves_the_callers_random_numbers_alone() -> None:
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    predictor()
    assert torch.equal(torch.rand(3), wanted)


def test_dropout_is_different_in_every_batch_and_off_in_evaluation() -> None:
    model = trained(epochs=1, dropout=0.5, fanout_output="all", fanout_inner="all")
    again = model.method.scorer(model.task.test_view)
    first, second = (scorer.score_rows(torch.arange(60), 0, 60) for scorer in (model._scorer("training"), again))
    assert torch.equal(first, second)
    assert history(model) != history(trained(epochs=1, fanout_output="all", fanout_inner="all"))


Place = tuple[int, int | None]
# Where the run is interrupted (after an epoch, or after a batch of an epoch), and what it is.
RUNS: list[tuple[Place, dict[str, Any]]] = [
    ((1, None), {}),
    ((3, 2), {}),
    ((4, 1), {"reverse": True, "metric": "hits@20", "eval_negatives": 1, "negatives_per_positive": 3}),
    ((2, None), {"dropout": 0.3, "weight_decay": 0.01, "norm_statistics": "running"}),
    ((3, 1), {"dropout": 0.3, "method": "smlp"}),
    ((3, None), {"method": "symmetric", "batches": "edges", "evaluate_every": 2, "encoder": "gat"}),
    ((2, 1), {"averaging": 0.0, "evidence": "none", "batches_per_epoch": 1}),
    ((2, None), {"averaging": 0.7, "norm_statistics": "running", "negatives": "near", "evaluate_every": 1}),
    ((3, 1), {"folds": 3, "averaging": 0.98, "objective": "focused", "negatives": "popular"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "settings"), RUNS)
def test_resume_equals_no_interruption(stop: Place, settings: dict[str, Any], tmp_path: Path) -> None:
    graph = small_graph()
    whole = predictor(**settings).fit(graph, tmp_path / "whole", observer=Observer())
    first = predictor(**settings).fit(graph, tmp_path / "run", observer=Stop(*stop))
    assert not first.finished
    heard = Stop(0)
    resumed = predictor(**settings).fit(graph, tmp_path / "run", resume=True, observer=heard)
    done = stop[0] if stop[1] is None else stop[0] - 1
    assert heard.calls == [f"started {done}/4 {whole.task.metric}", "finished"]
    assert [record["epoch"] for record in heard.records] == list(range(done + 1, 5))
    assert resumed.finished
    assert history(resumed) == history(whole)
    assert resumed.best_epoch == whole.best_epoch
    assert same_weights(weights(resumed), weights(whole))
    assert timeless(resumed.evaluate()) == timeless(whole.evaluate())
    reread = LinkPredictor.load(tmp_path / "run", device="cpu")
    assert history(reread) == history(whole)
    assert reread.best_epoch == whole.best_epoch


@pytest.mark.slow
def test_a_run_may_be_interrupted_again_and_again(tmp_path: Path) -> None:
    graph = small_graph()
    whole = trained(graph)
    for epoch in (1, 2, 3):
        model = predictor().fit(graph, tmp_path / "run", resume=epoch > 1, observer=Stop(epoch))
        assert len(model.history) == epoch
    last = predictor().fit(graph, tmp_path / "run", resume=True, observer=Observer())
    assert history(last) == history(whole)
    assert same_weights(weights(last), weights(whole))


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    graph = small_graph()
    whole = predictor(epochs=2).fit(graph, tmp_path / "run", observer=Observer())
    again = predictor(epochs=2).fit(graph, tmp_path / "run", resume=True, observer=Observer())
    assert again.finished
    assert again.history == whole.history
    assert same_weights(weights(again), weights(whole))


def test_what_cannot_be_resumed_is_refused(tmp_path: Path) -> None:
    graph, run = small_graph(), tmp_path / "run"
    with pytest.raises(HeadtailError, match="resume needs the run folder"):
        predictor().fit(graph, resume=True, observer=Observer())
    with pytest.raises(RunError, match="no checkpoint to resume from; train without --resume"):
        predictor().fit(graph, run, resume=True, observer=Observer())
    assert not run.exists()
    predictor().fit(graph, run, observer=Stop(1))
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(RunError, match="was trained on another graph; give the graph of that run"):
        predictor().fit(small_graph(seed=1), run, resume=True, observer=Observer())
    with pytest.raises(RunError, match=r"was trained with other settings; resume with those in .*config\.yaml"):
        predictor(learning_rate=0.02).fit(graph, run, resume=True, observer=Observer())
    (run / "checkpoint.safetensors").write_bytes(before["checkpoint.safetensors"][:-100])
    with pytest.raises(RunError, match=r"checkpoint\.safetensors is damaged"):
        predictor().fit(graph, run, resume=True, observer=Observer())
    (run / "checkpoint.safetensors").write_bytes(before["checkpoint.safetensors"])
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_run_may_move_to_another_device(tmp_path: Path) -> None:
    graph = small_graph()
    predictor(device="auto").fit(graph, tmp_path / "run", observer=Stop(2))
    assert predictor(device="cpu").fit(graph, tmp_path / "run", resume=True, observer=Observer()).finished


@pytest.mark.slow
def test_a_run_killed_between_checkpoint_and_journal_can_be_resumed(tmp_path: Path) -> None:
    graph = small_graph()
    predictor().fit(graph, tmp_path / "run", observer=Stop(1))
    (tmp_path / "run" / "metrics.jsonl").unlink()  # the checkpoint of the first epoch is there, its line is not yet
    resumed = predictor().fit(graph, tmp_path / "run", resume=True, observer=Observer())
    assert history(resumed) == history(trained(graph))
