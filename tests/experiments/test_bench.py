"""Benchmarks: graphs of the size asked for, numbers that add up, and a command that says what it measured."""

import json
from pathlib import Path

import pytest
import torch

from headtail.cli import main
from headtail.errors import ConfigError
from headtail.experiments.bench import SCALES, Scale, bench, bench_config, bench_graph, scale_named
from headtail.experiments.ceilings import measure_ceilings
from headtail.experiments.phases import PHASES, least_bytes
from headtail.experiments.variants import variant_named
from headtail.graph.task import make_task
from headtail.training.trainer import GnnMethod

SMALL = Scale(300, 2000, features=8)
TINY = {"hidden": 8, "links_per_batch": 500, "device": "cpu"}


@pytest.mark.parametrize("directed", [True, False])
def test_a_graph_has_the_size_of_its_scale(directed: bool) -> None:
    scale = Scale(300, 2000, directed, features=8)
    graph, again = bench_graph(scale), bench_graph(scale)
    assert (graph.num_nodes, graph.links.shape[1], graph.directed) == (300, 2000, directed)
    assert graph.features is not None
    assert graph.features.shape == (300, 8)
    assert torch.equal(graph.links, again.links)
    degrees = torch.bincount(graph.links[1], minlength=300)
    assert int(degrees.max()) > 10 * float(degrees.float().median().clamp(min=1))


def test_scales_are_named_or_given_as_sizes() -> None:
    assert scale_named("citation2") is SCALES["citation2"]
    assert scale_named("10,20") == Scale(10, 20)
    with pytest.raises(ConfigError, match="unknown scale 'citaton2'; did you mean 'citation2'"):
        scale_named("citaton2")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["aml", "sage", "smlp"])
def test_what_is_measured_adds_up(method: str, tmp_path: Path) -> None:
    variant, trace = variant_named(method), tmp_path / "trace.json"
    config = bench_config(variant, SMALL, {**TINY, "epochs": 3})
    found = bench(bench_graph(SMALL), variant, config, trace)
    assert found.links == 1998  # one link each is held out
    assert (found.epochs, found.steps) == (2, 4)
    assert min(found.phases.values()) > 0
    assert found.links_per_second == pytest.approx(1998 / found.seconds_per_epoch)
    spent = sum(found.phases[name] for name in ("forward", "backward", "optimiser"))
    assert found.wait_ms == pytest.approx(found.step_ms - spent)
    assert found.flops_per_step > 0 < found.bytes_per_step
    assert (found.gnn_node_encodings == 0) == (method == "smlp")
    assert (found.mlp_node_encodings == 0) == (method == "sage")
    assert json.loads(trace.read_text())["traceEvents"]


def test_products_are_counted_exactly() -> None:
    """SMLP with one layer and one scorer layer: forward and backward of two products per node and one per pair."""
    settings = {**TINY, "layers": 1, "scorer_layers": 1, "links_per_batch": 10_000}
    config = bench_config(variant_named("smlp"), SMALL, settings)
    graph = bench_graph(SMALL)
    found = bench(graph, variant_named("smlp"), config)
    method = GnnMethod.create(make_task(graph, config), config)
    (batch,) = method.batches().epoch(torch.Generator().manual_seed(1))
    nodes, pairs = batch.nodes.numel(), batch.pairs.pairs.shape[1]
    # Features have no gradient: forward and the weights' share of backward; the last layer has both shares.
    assert found.flops_per_step == 2 * 2 * (2 * nodes * 8 * 8) + 3 * (2 * pairs * 8)
    assert least_bytes(method, batch) == nodes * (2 * 4 * 8 + 5 * 4 * 8 * 2) + pairs * 5 * 4 * 8


def test_what_cannot_be_benchmarked_is_told() -> None:
    variant = variant_named("ra")
    with pytest.raises(ConfigError, match="ra cannot be benchmarked"):
        bench(bench_graph(SMALL), variant, bench_config(variant, SMALL, dict(TINY)))


def test_one_epoch_is_too_few() -> None:
    variant = variant_named("aml")
    with pytest.raises(ConfigError, match="two epochs or more"):
        bench(bench_graph(SMALL), variant, bench_config(variant, SMALL, {**TINY, "epochs": 1}))


@pytest.mark.slow
def test_ceilings_are_speeds() -> None:
    ceilings = measure_ceilings(torch.device("cpu"), "fp32")
    assert ceilings.flops > 1e8 < ceilings.bytes


@pytest.mark.slow
def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    flags = ["--hidden", "8", "--links-per-batch", "500", "--epochs", "2", "--device", "cpu"]
    assert main(["bench", "--scale", "300,2000", *flags]) == 0
    shown = capsys.readouterr()
    assert "300 nodes, 2,000 directed links" in shown.err
    assert "epoch 2/2" in shown.err
    for text in ("s/epoch", "links/s", "speed, sage = 1", "sample", "optimiser", "wait", "GFLOP a step", "aml", "sage"):
        assert text in shown.out
    assert main(["bench", "--scale", "300,2000", "--methods", "aml", "--json", *flags]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["methods"][0]["method"] == "aml"
    assert answer["methods"][0]["step_ms"] > 0 < answer["ceilings"]["flops"]


@pytest.mark.parametrize(
    "flags", [[], ["--scale", "collab", "--data", "debian"], ["--scale", "10,20", "--methods", ","]]
)
def test_wrong_flags_are_told(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *flags]) == 2
    assert "for example --" in " ".join(capsys.readouterr().err.split())


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["aml", "sage"])
def test_a_gpu_is_taken_apart_by_recordings(method: str, tmp_path: Path) -> None:
    scale, variant = Scale(3000, 20_000, features=16), variant_named(method)
    config = bench_config(variant, scale, {"device": "cuda", "epochs": 2, "links_per_batch": 4096, "hidden": 32})
    found = bench(bench_graph(scale), variant, config, tmp_path / "trace.json")
    assert set(found.phases) == set(PHASES)
    assert all(found.phases[name] > 0 for name in ("sample", "gather", "forward", "backward"))
    assert found.flops_per_step > 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


@pytest.mark.slow
def test_answers_are_timed_beside_training(capsys: pytest.CaptureFixture[str]) -> None:
    settings = "--hidden 8 --epochs 1 --layers 2 --eval-negatives 5 --links-per-batch 512 --device cpu".split()
    command = ["bench", "--scale", "300,2000", "--what", "answers", "--methods", "strong,ra", *settings, "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)["methods"]
    strong, ra = found.values()
    assert strong["nodes"] == 300
    assert strong["candidates"] >= 10
    assert strong["all_to_train"] == pytest.approx(strong["all_seconds"] / strong["train_seconds"])
    assert ra["choice"] == "exact"
    assert ra["candidates"] == 0
