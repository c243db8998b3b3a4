"""The demo end to end on a tiny graph that takes Debian's place."""

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from headtail import LinkPredictor
from headtail.experiments import demo
from headtail.graph.graph import Graph
from headtail.presets import PRESETS
from random_graphs import as_pairs
from tiny_runs import SMALL, predictor, small_graph, timeless

PACKAGES = ("p03", "p14", "p25")


@pytest.fixture(scope="module", autouse=True)
def tiny() -> Iterator[Graph]:
    """Has the demo load the tiny graph, ask for its nodes, and train with tiny settings."""
    graph = small_graph()
    settings = {name: value for name, value in SMALL.items() if name != "device"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "strong", PRESETS["strong"] | settings)
        patch.setattr(demo, "load", {"debian": graph}.__getitem__)
        patch.setattr(demo, "PACKAGES", PACKAGES)
        patch.setattr(demo, "EPOCHS", SMALL["epochs"])
        yield graph


Demo = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def first(tiny: Graph, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The run of a demo for machines, and its answer."""
    run = tmp_path_factory.mktemp("demo") / "run"
    with redirect_stdout(io.StringIO()) as printed:
        answer = demo.run_demo(run, "cpu", json_output=True)
    assert printed.getvalue() == ""
    return run, answer


@pytest.mark.slow
def test_the_demo_as_json(first: Demo) -> None:
    run, answer = first
    assert json.loads(json.dumps(answer)) == answer
    results = answer["results"]
    assert [result["method"] for result in results] == ["strong", "popularity", "cn", "aa", "ra", "item2hop"]
    wanted = LinkPredictor.load(run, device="cpu").evaluate()
    for result in results:
        assert set(result) == {"method", "mrr", "hits@10", "seconds", "all_nodes"}
        assert result["all_nodes"]["heads"] == wanted["all_nodes"]["heads"]
        assert 0 < result["mrr"] <= result["hits@10"] + 0.1 <= 1.1
        assert result["seconds"] > 0
    assert len({result["mrr"] for result in results}) > 3
    assert results[0]["mrr"] == wanted["mrr"]
    assert timeless(results[0]["all_nodes"]) == timeless(wanted["all_nodes"])
    assert len({result["all_nodes"]["recall@10"] for result in results}) > 2
    assert Path(answer["plot"]).read_bytes().startswith(b"\x89PNG")
    assert answer["run"] == str(run)
    assert answer["seconds"] >= sum(result["seconds"] for result in results[1:])


@pytest.mark.slow
def test_predictions_are_marked_with_the_release_that_added_them(first: Demo) -> None:
    run, answer = first
    rows = answer["recommendations"]
    assert [row["head"] for row in rows] == [name for name in PACKAGES for _ in range(demo.PREDICTIONS)]
    split = LinkPredictor.load(run, device="cpu").task.split
    truth: dict[tuple[str, str], int] = {}
    for year, links in ((2025, split.valid.positives), (2026, split.test.positives)):
        truth |= {(f"p{head:02}", f"p{tail:02}"): year for head, tail in as_pairs(links)}
    train = {(f"p{head:02}", f"p{tail:02}") for head, tail in as_pairs(split.train)}
    assert [row["added"] for row in rows] == [truth.get((row["head"], row["tail"])) for row in rows]
    assert not {(row["head"], row["tail"]) for row in rows} & train


def test_added_links_are_really_found(monkeypatch: pytest.MonkeyPatch, tiny: Graph) -> None:
    """Whoever asks for all tails sees every held-out link of those packages, with its year."""
    model = predictor(epochs=1).fit(tiny)
    monkeypatch.setattr(demo, "PACKAGES", tuple(f"p{node:02}" for node in range(60)))
    monkeypatch.setattr(demo, "PREDICTIONS", 59)
    years = demo._recommendations(model)["added"].dropna().tolist()
    assert model.answering.views == [model.task.test_view]  # nothing was asked that shows the future
    split = model.task.split
    assert years.count(2025) == split.valid.positives.shape[1]
    assert years.count(2026) == split.test.positives.shape[1]


@pytest.mark.slow
def test_the_demo_for_people_replaces_an_older_one(
    first: Demo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shutil.copytree(first[0], tmp_path / "run")
    answer: dict[str, Any] = demo.run_demo(tmp_path / "run", "cpu", seed=1)
    shown = capsys.readouterr().out
    assert "60 packages, 300 links" in shown
    assert "leak audit passed" in shown
    assert "Predicted new dependencies, with the links of 2021 and 2023 as evidence" in shown
    assert "epoch 4/4" in shown
    for result in answer["results"]:
        (line,) = [line for line in shown.splitlines() if line.split()[:1] == [result["method"]]]
        lists = (result["all_nodes"]["recall@10"], result["all_nodes"]["recall@50"])
        shares = (result["mrr"], result["hits@10"], *lists)
        assert line.split()[1:5] == [f"{100 * share:.2f}" for share in shares]
    assert "each ranked among 20 others, and among all 60 packages" in shown
    for row in answer["recommendations"]:
        mark = f"{row['tail']} ✓ {row['added']}" if row["added"] else row["tail"]
        (line,) = [line for line in shown.splitlines() if line.split()[:1] == [row["head"]]]
        assert mark in line
    assert str(tmp_path / "run" / "accuracy-time.png") in shown.replace("\n", "")
    assert f"headtail evaluate {tmp_path / 'run'}" in shown
    assert answer["recommendations"] != first[1]["recommendations"]
    assert LinkPredictor.load(tmp_path / "run", device="cpu").config.training.seed == 1


def test_the_curve_of_training_adds_up_the_seconds(tiny: Graph) -> None:
    model = predictor(epochs=3, evaluate_every=1).fit(tiny)
    curve = demo._trained_curve(model)
    seconds = [record["seconds"] for record in model.history]
    assert list(curve.seconds) == pytest.approx([seconds[0], seconds[0] + seconds[1], sum(seconds)])
    assert list(curve.values) == [100 * record["valid_mrr"] for record in model.history]


def test_the_curve_has_a_point_for_every_validation(tiny: Graph) -> None:
    model = predictor(epochs=3, evaluate_every=2).fit(tiny)
    curve = demo._trained_curve(model)
    seconds = [record["seconds"] for record in model.history]
    assert list(curve.seconds) == pytest.approx([seconds[0] + seconds[1], sum(seconds)])
    assert list(curve.values) == [100 * model.history[epoch]["valid_mrr"] for epoch in (1, 2)]
