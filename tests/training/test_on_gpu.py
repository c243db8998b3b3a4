"""Training and scoring on a GPU: the same answers as on the CPU, and the same ones every time."""

from pathlib import Path
from typing import Any

import pytest
import torch

from headtail import LinkPredictor
from headtail.graph.evidence import PairEvidence, choose_evidence
from headtail.graph.graph import Graph
from headtail.graph.view import GraphView
from headtail.nn.embedding_scorer import EmbeddingScorer
from headtail.training.observer import Observer
from random_graphs import graph_of, random_links
from tiny_runs import Stop, history, predictor, same_weights, small_graph, timeless, trained, weights

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("encoder", ["sage", "gat", "pyg:GATv2Conv"])
def test_cpu_and_gpu_score_alike(encoder: str, tmp_path: Path) -> None:
    trained(encoder=encoder, epochs=2, precision="fp32").save(tmp_path / "run")
    on_cpu, on_gpu = (LinkPredictor.load(tmp_path / "run", device) for device in ("cpu", "cuda"))
    one, other = (model.method.model for model in (on_cpu, on_gpu))
    view = on_cpu.task.test_view
    rows_columns = one.represent_all(on_cpu.method.surroundings(view).graph)
    for wanted, found in zip(rows_columns, other.represent_all(on_gpu.method.surroundings(view).graph), strict=True):
        assert found.is_cuda
        torch.testing.assert_close(found.cpu(), wanted, atol=1e-4, rtol=1e-4)
    heads = torch.arange(60)
    found = on_gpu._scorer("training").score_rows(heads.cuda(), 0, 60).cpu()
    torch.testing.assert_close(found, on_cpu._scorer("training").score_rows(heads, 0, 60), atol=1e-4, rtol=1e-4)
    assert on_gpu.evaluate()["mrr"] == pytest.approx(on_cpu.evaluate()["mrr"], abs=0.02)
    table = on_gpu.predict([("p03", "p04"), ("p05", "p00")])
    assert table["score"].tolist() == pytest.approx(on_cpu.predict(table)["score"].tolist(), abs=1e-4)


def assert_nearly(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Scores from tables in bf16 are off by a few percent of what scores differ by."""
    assert float((found.cpu() - wanted).square().mean().sqrt()) < 0.1 * float(wanted.std())


@pytest.mark.parametrize("settings", [{}, {"encoder": "gat"}, {"norm_statistics": "running"}, {"method": "symmetric"}])
def test_tables_in_half_precision_score_nearly_alike(settings: dict[str, Any], tmp_path: Path) -> None:
    trained(epochs=4, learning_rate=0.02, **settings).save(tmp_path / "run")
    on_cpu, on_gpu = (LinkPredictor.load(tmp_path / "run", device) for device in ("cpu", "cuda"))
    scorer, exact = on_gpu._scorer("training"), on_cpu._scorer("training")
    assert isinstance(scorer, EmbeddingScorer)
    assert scorer.heads.dtype == scorer.tails.dtype == torch.bfloat16
    heads = torch.arange(60)
    wanted = exact.score_rows(heads, 0, 60)
    tails = heads.expand(60, 60).cuda()
    for found in (scorer.score_rows(heads.cuda(), 0, 60), scorer.score_tails(heads.cuda(), tails)):
        assert found.dtype == torch.float32
        assert_nearly(found, wanted)
    assert on_gpu.evaluate()["mrr"] == pytest.approx(on_cpu.evaluate()["mrr"], abs=0.05)


def test_learns_on_the_gpu_what_it_learns_on_the_cpu() -> None:
    graph = small_graph()
    settings = {"epochs": 8, "learning_rate": 0.02, "batches": "rows", "neighbours": "bns"}
    on_gpu, on_cpu = trained(graph, device="cuda", **settings), trained(graph, **settings)
    assert on_gpu.method.device.type == "cuda"
    assert on_gpu.history[-1]["loss"] < 0.9 * on_gpu.history[0]["loss"]
    assert on_gpu.history[-1]["loss"] == pytest.approx(on_cpu.history[-1]["loss"], rel=0.3)
    assert 0.1 < on_gpu.evaluate()["mrr"] <= 1
    assert on_gpu.history[0]["pairs_scored"] == on_cpu.history[0]["pairs_scored"]


def test_the_same_seed_gives_the_same_run_on_the_gpu() -> None:
    graph = small_graph()
    one, other = (trained(graph, device="cuda", dropout=0.2) for _ in range(2))
    assert history(one) == history(other)
    assert same_weights(weights(one), weights(other))


def test_resume_on_the_gpu_equals_no_interruption(tmp_path: Path) -> None:
    graph = small_graph()
    whole = trained(graph, device="cuda", dropout=0.2)
    predictor(device="cuda", dropout=0.2).fit(graph, tmp_path / "run", observer=Stop(2))
    resumed = predictor(device="cuda", dropout=0.2).fit(graph, tmp_path / "run", resume=True, observer=Observer())
    assert history(resumed) == history(whole)
    assert timeless(resumed.evaluate()) == timeless(whole.evaluate())


def test_a_run_moves_from_gpu_to_cpu(tmp_path: Path) -> None:
    graph = small_graph()
    predictor(device="cuda").fit(graph, tmp_path / "run", observer=Stop(2))
    moved = predictor(device="cpu").fit(graph, tmp_path / "run", resume=True, observer=Observer())
    assert moved.finished
    assert moved._scorer("training").device.type == "cpu"


def dated_graph() -> Graph:
    """Returns links of 60 nodes over 40 dates, for evidence of every kind."""
    return graph_of(random_links(60, 600, True), 60, times=torch.arange(600) // 15)


STRONG = {"structure": "auto", "featureless": 6, "evaluate_every": 1}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("dates", [None, 40])
def test_cpu_and_gpu_find_the_same_evidence(directed: bool, dates: int | None) -> None:
    links = random_links(300, 3000, directed)
    times = None if dates is None else torch.arange(3000) % dates
    view = GraphView(300, directed, links, times)
    features = torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
    kinds = choose_evidence("degrees,common,paths,similarity,ages", view, described=True)
    on_cpu, on_gpu = PairEvidence(kinds, view, features), PairEvidence(kinds, view, features.cuda())
    heads, tails = torch.cartesian_prod(torch.arange(40), torch.arange(300)).T
    found = on_gpu(heads.cuda(), tails.cuda())
    torch.testing.assert_close(found.cpu(), on_cpu(heads, tails), rtol=1e-4, atol=1e-4)
    assert torch.equal(found, on_gpu(heads.cuda(), tails.cuda()))
    there, back = on_gpu.rows(torch.arange(40).cuda(), 0, 300, False)
    torch.testing.assert_close(there.flatten(0, 1), found)
    assert back is not None
    torch.testing.assert_close(back.flatten(0, 1).cpu(), on_cpu(tails, heads), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"reverse": True}, {"supervision": "all", "folds": 4}])
def test_a_strong_epoch_on_the_gpu_is_like_one_on_the_cpu(settings: dict[str, Any], tmp_path: Path) -> None:
    graph = dated_graph()
    settings = STRONG | {"epochs": 1} | settings
    on_cpu, on_gpu = (trained(graph, device=device, **settings) for device in ("cpu", "cuda"))
    one, other = on_cpu.history[0], on_gpu.history[0]
    assert (one["links"], one["pairs_scored"]) == (other["links"], other["pairs_scored"])
    assert other["loss"] == pytest.approx(one["loss"], rel=0.3)  # batches and negatives are drawn differently
    assert history(trained(graph, device="cuda", **settings)) == history(on_gpu)
    on_gpu.save(tmp_path / "run")
    moved = LinkPredictor.load(tmp_path / "run", "cpu")
    heads = torch.arange(60)
    found = on_gpu._scorer("training").score_rows(heads.cuda(), 0, 60).cpu()
    assert_nearly(found, moved._scorer("training").score_rows(heads, 0, 60))


def test_a_strong_run_is_resumed_on_the_gpu(tmp_path: Path) -> None:
    graph = dated_graph()
    whole = trained(graph, device="cuda", **STRONG)
    predictor(device="cuda", **STRONG).fit(graph, tmp_path / "run", observer=Stop(2))
    resumed = predictor(device="cuda", **STRONG).fit(graph, tmp_path / "run", resume=True, observer=Observer())
    assert history(resumed) == history(whole)
    assert same_weights(weights(resumed), weights(whole))
