"""Where features lie: the estimate, the choice at its boundary, what is said, and runs that do not depend on it."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headtail import LinkPredictor
from headtail.config import Config
from headtail.graph import message, tables
from headtail.graph.graph import Graph
from headtail.graph.supervision import supervise
from headtail.graph.tables import HostTable
from headtail.graph.task import LinkTask, make_task
from headtail.nn import encoders
from headtail.training import placement
from headtail.training.observer import Observer
from headtail.training.placement import Footprint, Placement, place_features
from headtail.training.trainer import GnnMethod
from random_graphs import graph_of, random_links
from tiny_runs import Stop, history, predictor, small_graph, trained, weights

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
GIB = 2**30


def free(amount: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Says what is free on a GPU; host memory is without end."""
    monkeypatch.setattr(placement, "free_bytes", lambda _device: amount)
    monkeypatch.setattr(placement, "available_bytes", lambda: 2**60)


@pytest.mark.parametrize(
    ("features", "links", "on_host"), [(500, 100, False), (501, 100, True), (0, 601, True), (0, 0, False)]
)
def test_auto_is_the_device_up_to_a_share_of_what_is_free(
    features: int, links: int, on_host: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(1000, monkeypatch)
    found = place_features("auto", CUDA, Footprint(features, links))
    assert found.on_host == on_host
    assert (found.note is not None) == on_host


def test_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    free(int(20.1 * GIB), monkeypatch)
    assert place_features("auto", CUDA, Footprint(int(37.3 * GIB), GIB)).note == (
        "The features (37.3 GiB) do not fit into GPU memory (20.1 GiB free) beside links and batches: they stay in "
        "host memory and are fetched batch by batch"
    )


@pytest.mark.parametrize("device", [CUDA, CPU])
def test_what_was_asked_for_is_done(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    free(0, monkeypatch)
    huge = Footprint(10**12, 10**12)
    assert place_features("host", device, huge) == Placement(True)
    assert place_features("device", device, huge) == Placement(False)
    assert place_features("disk", device, huge) == Placement(device == CUDA, on_disk=True)


@pytest.mark.parametrize("device", [CUDA, CPU])
def test_auto_is_the_disk_where_memory_does_not_do(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    free(0, monkeypatch)
    monkeypatch.setattr(placement, "available_bytes", lambda: 10 * GIB)
    assert not place_features("auto", device, Footprint(6 * GIB, 0)).on_disk
    found = place_features("auto", device, Footprint(7 * GIB, 0))
    assert found == Placement(device == CUDA, found.note, on_disk=True)
    assert found.note == (
        "The features and what is made of them (7.0 GiB) do not fit into memory (10.0 GiB free): they lie in files, of "
        "which the system keeps what is used"
    )


def task_of(**settings: Any) -> tuple[LinkTask, Config]:
    config = predictor(**settings).config
    return make_task(small_graph(), config), config


@pytest.mark.parametrize(
    ("settings", "tables", "graphs"),
    [
        ({}, 2 * 6, 1),
        ({"folds": 3}, 2 * 6, 3),
        ({"structure": 4}, 2 * (6 + 4), 1),
        ({"evidence": "degrees,similarity"}, 2 * 6 + 3 * 6, 1),
        ({"evidence": "degrees"}, 2 * 6, 1),
    ],
    ids=str,
)
def test_the_estimate_counts_what_is_kept(settings: dict[str, Any], tables: int, graphs: int) -> None:
    task, config = task_of(**settings)
    found = Footprint.of(task, config, supervise(task.train_view, "all"))
    assert found.features == graphs * tables * 60 * 4
    assert found.links == graphs * 48 * (2 * task.train_view.links.shape[1] + 60)


def test_the_message_graph_takes_no_more_than_estimated() -> None:
    task, config = task_of()
    method, found = GnnMethod.create(task, config), Footprint.of(task, config, supervise(task.train_view, "all"))
    graph = method.surroundings(task.train_view).graph
    rows = graph.adjacency
    assert graph.features.nbytes + graph.pre_encoded.nbytes <= found.features
    assert (
        sum(tensor.nbytes for tensor in (rows.row_ptr, rows.col, rows.row, rows.weight, graph.diagonal)) <= found.links
    )


def dated_graph() -> Graph:
    return graph_of(random_links(60, 600, True), 60, times=torch.arange(600) // 15)


def test_dated_supervision_keeps_a_second_graph() -> None:
    config = predictor(structure="auto", featureless=6).config
    task = make_task(dated_graph(), config)
    one, two = (Footprint.of(task, config, supervise(task.train_view, how)) for how in ("all", "newest"))
    assert two == Footprint(2 * one.features, 2 * one.links)


RUNS: list[dict[str, Any]] = [
    {},
    {"encoder": "gat", "norm_statistics": "running"},
    {"encoder": "pyg:GATv2Conv", "neighbours": "full"},
    {"method": "symmetric", "structure": 4},
    {"method": "smlp", "pre_encoding": False},
    {"reverse": True, "folds": 2, "structure": 4},
    {"preset": "strong", "evidence": "degrees,common,similarity"},
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", RUNS, ids=str)
@pytest.mark.parametrize("directed", [True, False])
def test_a_run_does_not_depend_on_where_features_lie(
    settings: dict[str, Any], directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, runs = small_graph(directed), []
    for place in ("device", "host"):
        if place == "host":
            monkeypatch.setattr(tables, "has_room", lambda _device, _needed: False)
        runs.append(trained(graph, features_on=place, **{"epochs": 2} | settings))
    compare(*runs)
    seen = runs[1].method.surroundings(runs[1].task.test_view).graph
    assert isinstance(seen.features, HostTable)
    assert isinstance(seen.pre_encoded, HostTable)
    if settings.get("method") != "smlp":
        scorer = runs[1]._scorer("training")
        assert HostTable in (type(scorer.heads), type(scorer.tails))
    assert runs[1].method.notes == runs[0].method.notes


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"supervision": "newest"}, {"folds": 3}], ids=str)
def test_a_run_on_dated_links_does_not_depend_on_it_either(settings: dict[str, Any]) -> None:
    settings = {"structure": "auto", "featureless": 6, "evidence": "degrees,ages", "epochs": 2} | settings
    compare(*(trained(dated_graph(), features_on=place, **settings) for place in ("device", "host")))


def compare(one: LinkPredictor, other: LinkPredictor) -> None:
    """Asserts that two predictors learned the same and answer the same."""
    for record, wanted in zip(history(other), history(one), strict=True):
        assert record == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    for name, wanted in weights(one).items():
        torch.testing.assert_close(weights(other)[name], wanted, rtol=1e-3, atol=1e-5)
    assert other.evaluate()["mrr"] == pytest.approx(one.evaluate()["mrr"], rel=1e-4)
    found, wanted = (each.recommend(k=3) for each in (other, one))
    assert found["score"].tolist() == pytest.approx(wanted["score"].tolist(), rel=1e-3, abs=1e-4)
    assert (found["tail"] == wanted["tail"]).mean() > 0.95  # of equal scores, rounding may choose another


def test_steps_that_read_the_host_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headtail.training.trainer.engine", lambda _device: True)
    monkeypatch.setattr("headtail.training.trainer.has_triton", lambda: True)
    for place, captures in (("device", True), ("host", False)):
        assert GnnMethod.create(*task_of(features_on=place)).captures == captures


def test_the_choice_is_told_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    task, config = task_of()
    method, note = GnnMethod.create(task, config), "The features stay in host memory"
    monkeypatch.setattr("headtail.training.trainer.place_features", lambda *_args: Placement(True, note))
    assert method.notes == (note,)
    assert isinstance(method.surroundings(task.train_view).graph.features, HostTable)


@pytest.mark.slow
def test_a_run_may_be_resumed_where_features_lie_elsewhere(tmp_path: Path) -> None:
    graph = small_graph()
    predictor(features_on="host").fit(graph, tmp_path / "run", observer=Stop(2))
    moved = predictor(features_on="device").fit(graph, tmp_path / "run", resume=True, observer=Observer())
    compare(trained(graph, features_on="device"), moved)


@pytest.mark.gpu
@pytest.mark.parametrize("settings", RUNS, ids=str)
@pytest.mark.parametrize("engine", ["0", "1"])
def test_a_run_on_a_gpu_does_not_depend_on_where_features_lie(
    settings: dict[str, Any], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTAIL_ENGINE", engine)
    settings = {"epochs": 1, "device": "cuda", "precision": "fp32"} | settings
    with monkeypatch.context() as plain:  # recorded steps pad their batches, so they are not the same to the last bit
        plain.setattr(GnnMethod, "captures", False)
        one = trained(features_on="device", **settings)
    other = trained(features_on="host", **settings)
    assert other.history[0]["loss"] == pytest.approx(one.history[0]["loss"], rel=1e-3)
    view = one.task.test_view
    graphs = [each.method.surroundings(view).graph for each in (one, other)]
    torch.testing.assert_close(graphs[1].pre_encoded.values, graphs[0].pre_encoded.cpu(), rtol=1e-4, atol=1e-5)
    assert graphs[1].features.values.is_pinned()
    heads = torch.arange(60, device="cuda")
    found, wanted = (each._scorer("training").score_rows(heads, 0, 60) for each in (other, one))
    # Rounding differs, and Adam makes whole steps of gradients that are nothing but rounding.
    torch.testing.assert_close(found, wanted, rtol=0.2, atol=0.2)
    assert float(torch.corrcoef(torch.stack([found.flatten(), wanted.flatten()]))[0, 1]) > 0.95


@pytest.mark.gpu
def test_a_gpu_without_room_takes_features_from_the_host_and_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    free(2000, monkeypatch)
    monkeypatch.setattr("headtail.kernels.room.free_bytes", lambda _device: 2000)
    said: list[str] = []
    graph = small_graph()
    model = predictor(device="cuda", epochs=1).fit(graph, say=said.append)
    assert any("they stay in host memory" in sentence for sentence in said)
    scorer = model._scorer("training")
    assert isinstance(scorer.heads, HostTable)
    assert scorer.heads.values.is_pinned()
    assert 0 < model.evaluate()["mrr"] <= 1
    assert len(model.recommend(k=3)) == 180


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"folds": 2, "evidence": "similarity"}, {"structure": 4}])
def test_training_from_files_is_training_from_memory(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    one = trained(small_graph(), **settings)
    monkeypatch.setattr("headtail.graph.scratch.available_bytes", lambda: 0)  # tables of evaluation too
    other = trained(small_graph(), features_on="disk", **settings)
    assert history(one) == history(other)
    assert all(torch.equal(weights(one)[name], tensor) for name, tensor in weights(other).items())
    assert one.recommend("p03", k=4).equals(other.recommend("p03", k=4))


@pytest.mark.parametrize("method", ["aml", "symmetric", "smlp"])
def test_what_a_step_reads_from_files_was_asked_for_in_another_thread(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, set[int], str]] = []
    monkeypatch.setattr(
        message,
        "expect_rows",
        lambda table, rows: asked.append((table.data_ptr(), set(rows.tolist()), threading.current_thread().name)),
    )
    config = predictor(method=method, features_on="disk").config
    learner = GnnMethod.create(make_task(small_graph(), config), config)
    source, graph = learner.batches(), learner._training.graph
    read: list[tuple[int, set[int]]] = []

    def rows_read(table: Tensor, nodes: Tensor) -> Tensor:
        read.append((table.data_ptr(), set(nodes.tolist())))
        return table[nodes]

    for module in (message, encoders):
        monkeypatch.setattr(module, "rows_of", rows_read)
    for batch in learner.drawn(source, torch.Generator().manual_seed(0)):
        learner.loss(batch)
    assert read
    names = {graph.features.data_ptr(), graph.pre_encoded.data_ptr()}  # type: ignore[union-attr]
    for table in names:
        wanted = [nodes for place, nodes in read if place == table]
        given = set().union(*(nodes for place, nodes, _ in asked if place == table))
        assert given >= set().union(*wanted)
    assert {thread for _, _, thread in asked} == {"headtail-batches"}
